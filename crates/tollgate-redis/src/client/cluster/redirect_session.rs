//! A session with the node that serves a slot.
//!
//! `WATCH` belongs to a connection, so it cannot be redirected by itself. Where the node redirects
//! before anything is written, the session begins anew at the other node. There it sends `ASKING`
//! before every command as long as the slot has not arrived in full: `ASKING` counts for one
//! command, or for one transaction.

use tollgate_core::{BoxFuture, Result};

use super::redirect::Redirect;
use super::{Cluster, REDIRECTS_MAX, unserved};
use crate::client::session::Session;
use crate::transport::{self, Command, Reply};

/// A session that follows redirects as long as nothing is written in it.
pub(in crate::client) struct RedirectSession {
    cluster: Cluster,
    session: Session,
    is_asking: bool,
    /// After `MULTI`, until `EXEC`.
    in_transaction: bool,
}

impl RedirectSession {
    /// A session with the node that serves a slot.
    pub(in crate::client) async fn open(cluster: Cluster, slot: u16) -> Result<Self> {
        let map = cluster.topology.map().await?;
        let node = cluster.owner_in(&map, Some(slot)).ok_or_else(unserved)?;
        let session = Session::open(node).await.inspect_err(|_| cluster.topology.refresh())?;
        Ok(Self { cluster, session, is_asking: false, in_transaction: false })
    }

    /// Sends commands that write nothing, to the node that does not redirect them.
    async fn watch(&mut self, commands: &[Command]) -> Result<Vec<Reply>> {
        for _ in 0..REDIRECTS_MAX {
            let replies = self.send(commands).await?;
            let asked = self.session.node().target().host();
            let redirect = replies.iter().find_map(|reply| match reply {
                Reply::Error(text) => Redirect::of(text, asked),
                _ => None,
            });
            let Some(redirect) = redirect else { return Ok(replies) };
            let (node, is_asking) = self.cluster.follow(redirect);
            self.session = Session::open(node).await?;
            self.is_asking = is_asking;
            self.in_transaction = false;
        }
        self.send(commands).await
    }

    async fn send(&mut self, commands: &[Command]) -> Result<Vec<Reply>> {
        let commands: Vec<Vec<&[u8]>> =
            commands.iter().map(|command| command.words().collect()).collect();
        let (words, is_answer) = asking(&commands, self.is_asking, &mut self.in_transaction);
        let replies = self.session.commands(&words).await;
        let has_failed = replies
            .as_ref()
            .map_or(true, |replies| replies.iter().any(|reply| matches!(reply, Reply::Error(_))));
        if has_failed {
            self.cluster.topology.refresh();
        }
        let answers = replies?.into_iter().zip(is_answer);
        Ok(answers.filter_map(|(reply, is_answer)| is_answer.then_some(reply)).collect())
    }
}

impl transport::Session for RedirectSession {
    fn run<'a>(&'a mut self, commands: &'a [Command]) -> BoxFuture<'a, Result<Vec<Reply>>> {
        Box::pin(async move {
            let first = commands.first().and_then(|command| command.words().next());
            match first.is_some_and(|verb| verb == b"WATCH") {
                true => self.watch(commands).await,
                false => self.send(commands).await,
            }
        })
    }
}

type Words<'a> = &'a [&'a [u8]];

const ASKING: Words<'static> = &[b"ASKING"];

/// The commands with the `ASKING` that each of them needs before it, and which of these are the
/// commands.
fn asking<'a>(
    commands: &'a [Vec<&'a [u8]>],
    is_asking: bool,
    in_transaction: &mut bool,
) -> (Vec<Words<'a>>, Vec<bool>) {
    let (mut words, mut is_answer) = (Vec::new(), Vec::new());
    for command in commands {
        if is_asking && !*in_transaction {
            words.push(ASKING);
            is_answer.push(false);
        }
        *in_transaction = match command.first() {
            Some(&b"MULTI") => true,
            Some(&b"EXEC") => false,
            _ => *in_transaction,
        };
        words.push(command);
        is_answer.push(true);
    }
    (words, is_answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_asked_for_once_and_everything_else_each_time() {
        let runs = ["WATCH a,MGET a,TIME,MULTI", "SET a,EXEC", "WATCH a"];
        let sent = |is_asking| {
            let mut in_transaction = false;
            let sent = runs.map(|text| {
                let words = |command: &'static str| command.split(' ').map(str::as_bytes).collect();
                let commands: Vec<Vec<&[u8]>> = text.split(',').map(words).collect();
                let (words, is_answer) = asking(&commands, is_asking, &mut in_transaction);
                let answers = is_answer.iter().filter(|is_answer| **is_answer).count();
                assert_eq!(answers, commands.len());
                let verbs =
                    words.iter().map(|words| String::from_utf8_lossy(words[0]).into_owned());
                verbs.collect::<Vec<_>>().join(" ")
            });
            sent.join(", ")
        };
        assert_eq!(sent(false), "WATCH MGET TIME MULTI, SET EXEC, WATCH");
        let expected = "ASKING WATCH ASKING MGET ASKING TIME ASKING MULTI, SET EXEC, ASKING WATCH";
        assert_eq!(sent(true), expected);
    }
}

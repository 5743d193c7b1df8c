//! A session with whichever node serves a key.
//!
//! `WATCH` belongs to a connection, so it cannot be sent on by itself. Where the node redirects before
//! anything is written, the session begins anew at the other node. There it says `ASKING` before every
//! command as long as the slot is only on its way: the word counts for one command, or for one
//! transaction.

use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::time::sleep;
use tollgate_core::store::patience::last_words;
use tollgate_core::{BoxFuture, Result};

use super::redirect::Redirect;
use super::{Backoff, Cluster, FIRST_PAUSE, LONGEST_PAUSE, REDIRECTS_MAX, Session};
use crate::meaning::between_nodes;
use crate::transport::{self, Command, Reply};

/// A session that follows redirects as long as nothing is written in it.
pub(in crate::client) struct Following {
    cluster: Cluster,
    session: Session,
    is_asking: bool,
    /// After `MULTI`, until `EXEC`.
    in_transaction: bool,
}

impl Following {
    pub(in crate::client) const fn new(cluster: Cluster, session: Session) -> Self {
        Self { cluster, session, is_asking: false, in_transaction: false }
    }

    /// Sends commands that write nothing, to whichever node does not send them on. Whose time is up after a
    /// node said that it is to try again has met a slot that moves, and not silence.
    async fn watch(&mut self, commands: &[Command]) -> Result<Vec<Reply>> {
        let is_held_up = AtomicBool::new(false);
        let watched = pin!(self.look(commands, &is_held_up));
        let held_up = || Err(between_nodes("nothing was charged").not_sent());
        last_words(watched, || is_held_up.load(Relaxed).then(held_up)).await
    }

    async fn look(&mut self, commands: &[Command], is_held_up: &AtomicBool) -> Result<Vec<Reply>> {
        let mut replies = self.send(commands).await?;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for _ in 0..REDIRECTS_MAX {
            let asked = self.session.node().target().host();
            let Some(redirect) = replies.iter().find_map(|reply| Redirect::of(reply, asked)) else {
                break;
            };
            let topology = &self.cluster.topology;
            let node = match redirect {
                Redirect::Moved { slot, host } => {
                    self.is_asking = false;
                    topology.moved(slot, &host)
                }
                Redirect::Ask { host } => {
                    self.is_asking = true;
                    topology.node(&host)
                }
                Redirect::TryAgain => {
                    is_held_up.store(true, Relaxed);
                    sleep(backoff.pause()).await;
                    self.session.node().clone()
                }
                Redirect::Down | Redirect::Unrefused => break,
            };
            self.session = self.cluster.session_at(node).await?;
            self.in_transaction = false;
            replies = self.send(commands).await?;
        }
        Ok(replies)
    }

    async fn send(&mut self, commands: &[Command]) -> Result<Vec<Reply>> {
        let commands: Vec<Vec<&[u8]>> =
            commands.iter().map(|command| command.words().collect()).collect();
        let (words, is_answer) = asking(&commands, self.is_asking, &mut self.in_transaction);
        let replies = self.session.commands(&words).await?;
        let answers = replies.into_iter().zip(is_answer);
        Ok(answers.filter_map(|(reply, is_answer)| is_answer.then_some(reply)).collect())
    }
}

impl transport::Session for Following {
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

/// The commands with the word that each of them needs before it, and which of them are the commands.
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

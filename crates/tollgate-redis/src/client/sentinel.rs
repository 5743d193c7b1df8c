//! Finds the master that sentinels name, and notices when they name another.
//!
//! All sentinels are queried, and the answer with the newest configuration counts: a sentinel that
//! was cut off may name the old master. After a failover the old master may accept writes for
//! seconds before a sentinel makes it a replica, and those writes are lost. So the sentinels are
//! queried when a connection is made, and every 250 ms while it is used.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_core::{Code, Error, Result};

use super::dial::dial;
use super::exclusive::ExclusiveConnection;
use super::host::Host;
use super::settings::Settings;
use crate::transport::Reply;

/// Between two queries while a connection is used.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// Sentinels and the name of the master that they watch.
#[derive(Debug)]
pub(super) struct Sentinels {
    hosts: Vec<Host>,
    query: Arc<Query>,
}

/// The query for the master of this name.
#[derive(Debug)]
struct Query {
    master: String,
    /// How to reach the sentinels; they have users and passwords of their own.
    settings: Settings,
}

/// What a sentinel answered.
#[derive(Debug)]
struct MasterReply {
    /// Grows with each failover.
    epoch: u64,
    master: Host,
}

impl Sentinels {
    pub(super) fn new(hosts: Vec<Host>, master: String, settings: Settings) -> Self {
        Self { hosts, query: Arc::new(Query { master, settings }) }
    }

    /// Connects to the master.
    ///
    /// # Errors
    /// When no sentinel names one, or what they name cannot be reached or is no master.
    pub(super) async fn dial(&self, settings: &Settings) -> Result<ExclusiveConnection> {
        let master = self.find().await.map_err(Error::not_sent)?;
        let mut connection = dial(&master, settings).await?;
        let replies = connection.exchange(&[&[b"ROLE"]], settings.connect_timeout).await;
        match replies.map_err(Error::not_sent)?.first() {
            Some(Reply::List(role)) if role.first() == Some(&Reply::Text(b"master".to_vec())) => {
                Ok(connection)
            }
            // A user may lack the right to `ROLE`. A replica refuses writes.
            Some(Reply::Error(text)) if text.starts_with("NOPERM") => Ok(connection),
            _ => {
                let message = format!("the sentinels name {master}, which is not a master now");
                Err(Error::new(Code::StoreUnavailable, message).not_sent())
            }
        }
    }

    /// Returns once a sentinel names another master than `connected` in a configuration that is not
    /// older than what others say.
    pub(super) async fn name_another(&self, connected: &Host) {
        let mut connections: Vec<Option<ExclusiveConnection>> =
            self.hosts.iter().map(|_| None).collect();
        let mut newest = 0;
        loop {
            sleep(WATCH_EVERY).await;
            let mut answers = Vec::new();
            for (host, connection) in self.hosts.iter().zip(&mut connections) {
                if let Ok(answer) = self.query.run(host, connection).await {
                    answers.push(answer);
                }
            }
            let Some(answer) = newest_of(answers) else { continue };
            if answer.epoch >= newest {
                newest = answer.epoch;
                if answer.master != *connected {
                    return;
                }
            }
        }
    }

    /// Queries all at the same time, and waits for more than half of them if it can.
    async fn find(&self) -> Result<Host> {
        let mut queries = JoinSet::new();
        for host in &self.hosts {
            let (query, host) = (Arc::clone(&self.query), host.clone());
            queries.spawn(async move { query.run(&host, &mut None).await });
        }
        let mut failure = Error::new(Code::StoreUnavailable, "there are no sentinels");
        let mut answers = Vec::new();
        while let Some(answer) = queries.join_next().await {
            match answer {
                Ok(Ok(answer)) => answers.push(answer),
                Ok(Err(error)) => failure = error,
                // The runtime shuts down.
                Err(_) => {}
            }
            if answers.len() > self.hosts.len() / 2 {
                break;
            }
        }
        newest_of(answers).map(|answer| answer.master).ok_or(failure)
    }
}

impl Query {
    /// Queries over a connection that may be open already; it is open afterwards if there is an
    /// answer.
    async fn run(
        &self,
        sentinel: &Host,
        open: &mut Option<ExclusiveConnection>,
    ) -> Result<MasterReply> {
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => dial(sentinel, &self.settings).await?,
        };
        let name = self.master.as_bytes();
        let address: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", name];
        let details: [&[u8]; 3] = [b"SENTINEL", b"MASTER", name];
        let limit = self.settings.connect_timeout;
        let replies = connection.exchange(&[&address, &details], limit).await?;
        let [address, details] = replies.as_slice() else {
            return Err(Error::new(Code::StoreUnavailable, "a sentinel did not answer"));
        };
        let master = named(address).ok_or_else(|| {
            let message = format!("the sentinel at {sentinel} names no such master");
            Error::new(Code::StoreUnavailable, message)
        })?;
        *open = Some(connection);
        Ok(MasterReply { epoch: epoch(details), master })
    }
}

/// The answer of the newest configuration.
fn newest_of(answers: Vec<MasterReply>) -> Option<MasterReply> {
    answers.into_iter().max_by_key(|answer| answer.epoch)
}

/// A host and a port.
fn named(reply: &Reply) -> Option<Host> {
    let Reply::List(parts) = reply else { return None };
    let [name, port] = parts.as_slice() else { return None };
    Some(Host::new(text(name)?, text(port)?.parse().ok()?))
}

/// Names and values follow each other.
fn epoch(details: &Reply) -> u64 {
    let Reply::List(parts) = details else { return 0 };
    let mut texts = parts.iter().map(text);
    let value = texts.by_ref().step_by(2).position(|name| name == Some("config-epoch"));
    let value = value.and_then(|at| parts.get(2 * at + 1)).and_then(text);
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Text(bytes) => core::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Reply {
        Reply::List(texts.iter().map(|text| Reply::Text(text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn answers_are_read() {
        assert_eq!(named(&list(&["10.0.0.1", "80"])), Some(Host::new("10.0.0.1", 80)));
        for reply in [Reply::Nil, list(&["a"]), list(&["a", "x"]), list(&["a", "1", "2"])] {
            assert_eq!(named(&reply), None);
        }
        assert_eq!(epoch(&list(&["name", "config-epoch", "config-epoch", "7"])), 7);
        assert_eq!(epoch(&list(&["config-epoch"])), 0);
        assert_eq!(epoch(&Reply::Nil), 0);
    }

    #[test]
    fn the_newest_configuration_counts() {
        let answer = |epoch, port| MasterReply { epoch, master: Host::new("a", port) };
        let newest = newest_of(vec![answer(1, 1), answer(3, 3), answer(2, 2)]);
        assert_eq!(newest.unwrap().master.port(), 3);
    }
}

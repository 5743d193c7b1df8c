//! The thread that looks without writing, for peek and forecast.
//!
//! A connection that may only read sees what was committed last, and waits for no writer. Those who wait
//! share one look.

use rusqlite::Connection;
use tokio::sync::oneshot;
use tollgate_core::{Result, SystemClock};

use crate::config::Config;
use crate::fault::Fault;
use crate::file;
use crate::pause::patiently;
use crate::queue::{Taker, Woken};
use crate::recent::Shared;
use crate::sql::{LogSql, look, value_of};

/// Looks that share a transaction.
const ROUND_MAX: usize = 1_000;

/// The keys that somebody wants to see, and where their values go.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) keys: Vec<String>,
    pub(crate) reply: oneshot::Sender<Result<Vec<Option<String>>>>,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) config: Config,
    pub(crate) clock: SystemClock,
    pub(crate) queue: Taker<Look>,
    pub(crate) recent: Shared,
}

impl Reader {
    /// Works until the store is closed or dropped.
    pub(crate) fn work(self, first: Connection) {
        let mut connection = Some(first);
        while self.queue.wait(None) != Woken::End {
            let mut looks = Vec::new();
            self.queue.take(&mut looks, ROUND_MAX);
            connection = self.answer(connection, looks);
        }
    }

    /// Answers; the connection to go on with.
    fn answer(&self, connection: Option<Connection>, looks: Vec<Look>) -> Option<Connection> {
        let limit = self.config.lock_timeout;
        let opened = connection.map_or_else(|| file::to_read(&self.config), Ok);
        let seen = opened.and_then(|connection| {
            let seen = patiently(&self.clock, limit, || self.see(&connection, &looks))?;
            Ok((connection, seen))
        });
        match seen {
            Ok((connection, seen)) => {
                self.queue.progress().round_ended();
                for (look, values) in looks.into_iter().zip(seen) {
                    // Nobody is there to hear it if the caller has gone.
                    let _ = look.reply.send(Ok(values));
                }
                Some(connection)
            }
            Err(fault) => {
                let error = fault.into_error().not_sent();
                looks.into_iter().for_each(|look| drop(look.reply.send(Err(error.clone()))));
                None
            }
        }
    }

    /// Everything at one instant.
    fn see(
        &self,
        connection: &Connection,
        looks: &[Look],
    ) -> Result<Vec<Vec<Option<String>>>, Fault> {
        let mut recent = self.recent.lock();
        let transaction = connection.unchecked_transaction()?;
        recent.refresh(&mut LogSql::prepare(&transaction)?)?;
        let mut statement = look(&transaction)?;
        let mut value = |key: &String| match recent.value(key) {
            Some(value) => Ok(value.text.clone()),
            None => value_of(&mut statement, key),
        };
        let values = |one: &Look| one.keys.iter().map(&mut value).collect::<Result<_, _>>();
        looks.iter().map(values).collect()
    }
}

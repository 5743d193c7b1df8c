//! Finds the master that sentinels name.
//!
//! They are asked whenever a connection has to be made, so a failover is followed as soon as the old
//! master is lost or says that it is none any more. What they name is asked for its role: a sentinel
//! that was cut off may name the old one.

use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::{Code, Error, Result};

use super::dial::dial;
use super::host::Host;
use super::settings::Settings;
use super::wire::Wire;
use crate::transport::Reply;

/// Sentinels and the name of the master that they watch.
#[derive(Debug)]
pub(super) struct Sentinels {
    /// The one that answered last comes first.
    hosts: Mutex<Vec<Host>>,
    master: String,
    /// How to reach the sentinels; they have users and passwords of their own.
    settings: Settings,
}

impl Sentinels {
    pub(super) const fn new(hosts: Vec<Host>, master: String, settings: Settings) -> Self {
        Self { hosts: Mutex::new(hosts), master, settings }
    }

    /// Connects to the master.
    ///
    /// # Errors
    /// When no sentinel names one, or what they name cannot be reached or is no master.
    pub(super) async fn dial(&self, settings: &Arc<Settings>) -> Result<Wire> {
        let hosts = self.lock().clone();
        let mut failure = Error::new(Code::StoreUnavailable, "there are no sentinels").unsent();
        for sentinel in hosts {
            match self.dial_by(&sentinel, settings).await {
                Ok(wire) => {
                    let mut hosts = self.lock();
                    // Stable: the others keep their order.
                    hosts.sort_by_key(|host| *host != sentinel);
                    return Ok(wire);
                }
                Err(error) => failure = error.unsent(),
            }
        }
        Err(failure)
    }

    async fn dial_by(&self, sentinel: &Host, settings: &Settings) -> Result<Wire> {
        let mut wire = dial(sentinel, &self.settings).await?;
        let question: [&[u8]; 3] =
            [b"SENTINEL", b"get-master-addr-by-name", self.master.as_bytes()];
        let replies = wire.exchange(&[&question], self.settings.connect_timeout).await?;
        let master = named(replies.first()).ok_or_else(|| {
            let message = format!("the sentinel at {sentinel} names no such master");
            Error::new(Code::StoreUnavailable, message)
        })?;
        let mut wire = dial(&master, settings).await?;
        let replies = wire.exchange(&[&[b"ROLE"]], settings.connect_timeout).await?;
        match replies.first() {
            Some(Reply::List(role)) if role.first() == Some(&Reply::Text(b"master".to_vec())) => {
                Ok(wire)
            }
            // A user may lack the right to ask. A replica will refuse what it is sent.
            Some(Reply::Error(text)) if text.starts_with("NOPERM") => Ok(wire),
            _ => {
                let message = format!("the sentinels name {master}, which is not a master now");
                Err(Error::new(Code::StoreUnavailable, message))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Host>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host and a port.
fn named(reply: Option<&Reply>) -> Option<Host> {
    let Some(Reply::List(parts)) = reply else { return None };
    let [Reply::Text(name), Reply::Text(port)] = parts.as_slice() else { return None };
    let port = core::str::from_utf8(port).ok()?.parse().ok()?;
    Some(Host::new(core::str::from_utf8(name).ok()?, port))
}

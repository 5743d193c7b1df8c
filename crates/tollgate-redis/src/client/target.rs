//! Which server a link connects to: one at a known place, or the master of the moment.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Result;

use super::dial::dial;
use super::host::Host;
use super::sentinel::Sentinels;
use super::settings::Settings;
use super::wire::Wire;

/// Nobody watches over a connection that one caller has to itself, so the sentinels are asked for
/// another one when it is older than this.
const TRUST: Duration = Duration::from_secs(1);

/// Finds and dials a server.
#[derive(Debug)]
pub(super) struct Target {
    place: Place,
    settings: Arc<Settings>,
}

/// Where it is.
#[derive(Debug)]
pub(super) enum Place {
    At(Host),
    /// Whatever the sentinels name.
    Named(Sentinels),
}

impl Target {
    pub(super) const fn new(place: Place, settings: Arc<Settings>) -> Self {
        Self { place, settings }
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`dial`] and [`Sentinels::dial`].
    pub(super) async fn dial(&self) -> Result<Wire> {
        match &self.place {
            Place::At(host) => dial(host, &self.settings).await,
            Place::Named(sentinels) => sentinels.dial(&self.settings).await,
        }
    }

    /// Returns once another server than the one at `connected` is meant.
    pub(super) async fn moves_from(&self, connected: &Host) {
        match &self.place {
            Place::At(_) => core::future::pending().await,
            Place::Named(sentinels) => sentinels.name_another(connected).await,
        }
    }

    /// Whether a connection of this age certainly leads to the right server.
    pub(super) fn trusts(&self, age: Duration) -> bool {
        match &self.place {
            Place::At(_) => true,
            Place::Named(_) => age < TRUST,
        }
    }

    /// Its place, if that is known.
    pub(super) const fn host(&self) -> Option<&Host> {
        match &self.place {
            Place::At(host) => Some(host),
            Place::Named(_) => None,
        }
    }

    pub(super) fn reply_timeout(&self) -> Duration {
        self.settings.reply_timeout
    }

    pub(super) fn connections(&self) -> usize {
        self.settings.connections
    }
}

//! Which server a connection leads to: one at an address, or the current master.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Result;

use super::dial::dial;
use super::exclusive::ExclusiveConnection;
use super::host::Host;
use super::sentinel::Sentinels;
use super::settings::Settings;

/// Finds and dials a server.
#[derive(Debug)]
pub(super) struct Target {
    address: Address,
    settings: Arc<Settings>,
}

/// Where a server is.
#[derive(Debug)]
pub(super) enum Address {
    At(Host),
    /// The master that the sentinels name.
    Master(Sentinels),
}

impl Target {
    pub(super) const fn new(address: Address, settings: Arc<Settings>) -> Self {
        Self { address, settings }
    }

    /// Connects.
    ///
    /// # Errors
    /// As [`dial`] and [`Sentinels::dial`].
    pub(super) async fn dial(&self) -> Result<ExclusiveConnection> {
        match &self.address {
            Address::At(host) => dial(host, &self.settings).await,
            Address::Master(sentinels) => sentinels.dial(&self.settings).await,
        }
    }

    /// Returns once another server than the one at `connected` is meant.
    pub(super) async fn moves_from(&self, connected: &Host) {
        match &self.address {
            Address::At(_) => core::future::pending().await,
            Address::Master(sentinels) => sentinels.name_another(connected).await,
        }
    }

    /// Its address, unless sentinels name it.
    pub(super) const fn host(&self) -> Option<&Host> {
        match &self.address {
            Address::At(host) => Some(host),
            Address::Master(_) => None,
        }
    }

    pub(super) fn reply_timeout(&self) -> Duration {
        self.settings.reply_timeout
    }
}

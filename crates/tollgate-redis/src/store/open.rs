//! The store over its own client.

use tollgate_core::{Result, SystemClock};

use super::Redis;
use crate::client::{Client, Inspection};
use crate::config::Config;

impl Redis {
    /// A store that connects on first use, in the tokio runtime of the first caller.
    ///
    /// # Errors
    /// When the retries, or a file that the configuration names, are not accepted.
    pub fn open(config: Config) -> Result<Self> {
        let (layout, retries) = (config.options.layout, config.retries.validated()?);
        let client = Client::open(config)?;
        Ok(Self::with_options(client, layout, retries, SystemClock::new()))
    }

    /// A store that is connected to every server that holds keys.
    ///
    /// # Errors
    /// As [`open`](Self::open); when a server cannot be reached or verified, or refuses the login.
    pub async fn connect(config: Config) -> Result<Self> {
        let store = Self::open(config)?;
        store.transport().connect().await?;
        Ok(store)
    }

    /// Reads the settings of the servers that matter for counters.
    ///
    /// # Errors
    /// When one of them does not answer.
    pub async fn inspect(&self) -> Result<Inspection> {
        self.transport().inspect().await
    }
}

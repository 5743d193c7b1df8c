//! Which server a link connects to: one whose host is known.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::Result;

use super::dial::dial;
use super::host::Host;
use super::settings::Settings;
use super::wire::Wire;

/// Finds and dials a server.
#[derive(Debug)]
pub(super) enum Target {
    /// A server at a known place.
    Fixed {
        /// Its place.
        host: Host,
        /// How to reach it.
        settings: Arc<Settings>,
    },
}

impl Target {
    /// Connects.
    ///
    /// # Errors
    /// As [`dial`].
    pub(super) async fn dial(&self) -> Result<Wire> {
        match self {
            Self::Fixed { host, settings } => dial(host, settings).await,
        }
    }

    pub(super) fn reply_timeout(&self) -> Duration {
        self.settings().reply_timeout
    }

    pub(super) fn settings(&self) -> &Settings {
        match self {
            Self::Fixed { settings, .. } => settings,
        }
    }
}

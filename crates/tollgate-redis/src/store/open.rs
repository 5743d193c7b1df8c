//! The store over its own client.

use tollgate_core::Result;

use super::RedisStore;
use crate::client::Client;

impl RedisStore<Client> {
    /// A store on the servers at a URL: `redis://`, `rediss://`, `redis-cluster://`,
    /// `rediss-cluster://` or `redis-sentinel://` (see [`Url`](crate::client::Url)). Connections are
    /// made on first use, in the tokio runtime of whoever asks first.
    ///
    /// # Errors
    /// When the URL, or a file that it names, is not accepted.
    pub fn open(url: &str) -> Result<Self> {
        Client::open(url).map(Self::over)
    }
}

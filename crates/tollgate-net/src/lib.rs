//! What Tollgate's stores share on a network. Applications use the stores, not this crate.
//!
//! [`tls`] encrypts connections and verifies the server. [`http`] (a feature) sends requests and
//! reports of each failed request whether it may have been sent: a charge that may have been made
//! must not be made again. [`refreshing_credential`] (a feature) keeps a token or key that has to
//! be fetched first.
//!
//! Needs a tokio runtime with network and time enabled. Not available on wasm32, where the host
//! sends requests.

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "refreshing-credential")]
pub mod refreshing_credential;
pub mod tls;

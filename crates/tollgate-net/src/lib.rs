//! What Tollgate's stores share on a network. Applications use the stores.
//!
//! [`tls`] encrypts connections and verifies who is at the other end; [`http`], a feature, sends requests
//! and says of each that fails whether it may have got out: an exact limiter must know, because what may
//! have been charged must not be charged again. [`lease`], a feature, keeps what has to be fetched first,
//! such as a token.
//!
//! Needs a tokio runtime with its network and clock enabled. Not for wasm32, where the host brings its own.

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "lease")]
pub mod lease;
pub mod tls;

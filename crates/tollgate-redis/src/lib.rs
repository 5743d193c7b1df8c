//! Tollgate on Redis: exact across replicas, one round trip per decision, many decisions per call.

mod call;
#[cfg(feature = "client")]
pub mod client;
mod decimal;
mod districts;
mod encode;
mod integers;
mod late;
mod layout;
mod meaning;
pub mod script;
pub mod slot;
mod store;
mod text;
pub mod transport;
#[cfg(feature = "upstash")]
pub mod upstash;

pub use integers::Integers;
pub use layout::KeyLayout;
pub use store::RedisStore;

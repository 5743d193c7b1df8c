//! Rate limits for tower services: axum, tonic, hyper; and a client that keeps to those of others.
#![doc = include_str!("../README.md")]

#[cfg(feature = "axum")]
pub mod axum;
mod builder;
pub mod client;
mod decide;
mod event;
pub mod extract;
mod future;
mod gate;
mod head;
mod keyed;
mod layer;
mod reply;
mod service;
mod subject;
#[cfg(feature = "tonic")]
mod tonic;

pub use builder::RateLimitBuilder;
pub use decide::Decide;
pub use event::Event;
pub use future::ResponseFuture;
pub use head::Head;
pub use keyed::{Keyed, Outcome, SlowDown};
pub use layer::RateLimitLayer;
pub use reply::{Refusal, ReplyBody};
pub use service::RateLimit;
pub use subject::Subject;
pub use tollgate_http::{Dialect, Reset};

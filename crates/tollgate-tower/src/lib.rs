//! Rate limits for tower services (axum, tonic, hyper), and a client layer that respects the limits
//! of other services.
#![doc = include_str!("../README.md")]

#[cfg(feature = "axum")]
pub mod axum;
mod builder;
pub mod client;
mod decide;
mod enforce;
mod event;
pub mod extract;
mod future;
mod layer;
mod limit_rule;
mod refusal;
mod request_parts;
mod service;
mod subject;
#[cfg(feature = "tonic")]
mod tonic;
mod usage;

pub use builder::RateLimitBuilder;
pub use decide::Decide;
pub use event::Event;
pub use future::ResponseFuture;
pub use layer::RateLimitLayer;
pub use limit_rule::{LimitRule, ResponseParts, SlowDown};
pub use refusal::{BodyGuard, Guarded, Refusal, ResponseBody};
pub use request_parts::RequestParts;
pub use service::RateLimit;
pub use subject::Subject;
pub use tollgate_http::{Dialect, Reset};
pub use usage::Usage;

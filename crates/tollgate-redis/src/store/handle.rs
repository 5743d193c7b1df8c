//! The handle of the store. Its transport is the client of this crate unless another one is named.

use std::sync::Arc;

use super::Inner;
use crate::client::Client;
use crate::transport::Transport;

/// Tollgate on Redis.
///
/// Decides by the server's clock, exactly, however many processes share it. Cheap to clone.
///
/// ```no_run
/// use tollgate_core::algorithm::Gcra;
/// use tollgate_core::{Limit, Limiter, Quota};
/// use tollgate_redis::Redis;
///
/// # async fn example() -> tollgate_core::Result<()> {
/// let redis = Redis::connect("redis://localhost".parse()?).await?;
/// let limiter = Limiter::new(redis);
/// let limit = Limit::new("api", Gcra::new(Quota::per_minute(100))?)?;
/// let decision = limiter.check(limit.charge("user-1")).await?;
/// # let _ = decision;
/// # Ok(())
/// # }
/// ```
pub struct Redis<T: Transport = Client>(pub(super) Arc<Inner<T>>);

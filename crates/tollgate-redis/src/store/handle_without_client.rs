//! The handle of the store where the client of this crate is not compiled in: the transport is
//! named.

use std::sync::Arc;

use super::Inner;
use crate::transport::Transport;

/// Tollgate on Redis.
///
/// Decides by the server's clock, exactly, however many processes share it. Cheap to clone.
pub struct Redis<T: Transport>(pub(super) Arc<Inner<T>>);

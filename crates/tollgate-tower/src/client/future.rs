//! The response to a polite request.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::error::Error as StdError;

type Output<T> = Result<T, Box<dyn StdError + Send + Sync>>;

/// The response to a polite request. Dropping it while it waits sends nothing.
pub struct PoliteFuture<T> {
    inner: Pin<Box<dyn Future<Output = Output<T>> + Send>>,
}

impl<T> PoliteFuture<T> {
    pub(super) fn new(inner: impl Future<Output = Output<T>> + Send + 'static) -> Self {
        Self { inner: Box::pin(inner) }
    }
}

impl<T> Future for PoliteFuture<T> {
    type Output = Output<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.inner.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for PoliteFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoliteFuture").finish_non_exhaustive()
    }
}

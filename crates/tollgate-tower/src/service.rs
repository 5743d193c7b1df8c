//! A service behind limits.

use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use crate::decide::Decide;
use crate::future::ResponseFuture;
use crate::gate::{AtOnce, Gate, Passage};
use crate::head::Head;
use crate::reply::{ReplyBody, Wire};

/// A service behind limits. The error type of the inner service stays as it is: refusals are
/// responses. The body of a request is not read.
pub struct RateLimit<S, D> {
    inner: S,
    gate: Arc<Gate<D>>,
}

impl<S, D> RateLimit<S, D> {
    pub(crate) const fn new(inner: S, gate: Arc<Gate<D>>) -> Self {
        Self { inner, gate }
    }

    /// The service behind the limits.
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, D, Q, R> Service<Request<Q>> for RateLimit<S, D>
where
    S: Service<Request<Q>, Response = Response<R>> + Clone,
    D: Decide,
    R: ReplyBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, Q, R, D>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        match self.gate.at_once(&Head::of(&request)) {
            None => ResponseFuture::passing(self.inner.call(request)),
            Some(at_once) => self.call_otherwise(at_once, request),
        }
    }
}

impl<S, D: Decide> RateLimit<S, D> {
    /// Apart from the shortest path, so that no room is made there for what it does not need.
    #[inline(never)]
    fn call_otherwise<Q, R>(
        &mut self,
        at_once: AtOnce,
        request: Request<Q>,
    ) -> ResponseFuture<S, Q, R, D>
    where
        S: Service<Request<Q>, Response = Response<R>> + Clone,
        R: ReplyBody,
    {
        let passage = match at_once {
            AtOnce::Done(Passage::Free) => {
                return ResponseFuture::passing(self.inner.call(request));
            }
            AtOnce::Done(Passage::Passed(passed)) => {
                let gate = Arc::clone(&self.gate);
                return ResponseFuture::calling(self.inner.call(request), gate, passed);
            }
            AtOnce::Done(Passage::Refused(response)) => {
                return ResponseFuture::answered(response.map(R::from_bytes));
            }
            AtOnce::Ask(asked) => {
                let (gate, wire) = (Arc::clone(&self.gate), Wire::of(&Head::of(&request)));
                Box::pin(async move { gate.decide(asked, wire).await }) as _
            }
            AtOnce::Hold(granted) => {
                let (gate, wire) = (Arc::clone(&self.gate), Wire::of(&Head::of(&request)));
                Box::pin(async move { gate.hold(granted, wire).await }) as _
            }
        };
        // The one that was polled ready is called; a fresh clone stays here.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::deciding(passage, ready, request, Arc::clone(&self.gate))
    }
}

impl<S: Clone, D> Clone for RateLimit<S, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), gate: Arc::clone(&self.gate) }
    }
}

impl<S: fmt::Debug, D> fmt::Debug for RateLimit<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut service = f.debug_struct("RateLimit");
        service.field("inner", &self.inner).field("gate", &self.gate).finish()
    }
}

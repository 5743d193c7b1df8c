//! A limited service.

use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use crate::decide::Decide;
use crate::enforce::{Admit, Enforcer, Immediate};
use crate::future::ResponseFuture;
use crate::refusal::{Protocol, ResponseBody};
use crate::request_parts::RequestParts;

/// A limited service, made by a [`RateLimitLayer`](crate::RateLimitLayer). It keeps the error type
/// of the inner service, because refusals are responses, and it does not read the bodies of
/// requests.
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response, StatusCode};
/// use tollgate::{Limit, Limiter, Quota};
/// use tollgate_tower::{RateLimitLayer, extract::Global};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limit = Limit::gcra("service", Quota::per_minute(1))?;
/// let service = ServiceBuilder::new()
///     .layer(RateLimitLayer::new(Limiter::in_memory(), limit, Global)?)
///     .service(service_fn(|_: Request<String>| async {
///         Ok::<_, std::convert::Infallible>(Response::new(Bytes::from_static(b"hello")))
///     }));
/// let request = || Request::new(String::new());
/// assert_eq!(service.clone().oneshot(request()).await?.status(), StatusCode::OK);
/// assert_eq!(service.oneshot(request()).await?.status(), StatusCode::TOO_MANY_REQUESTS);
/// # Ok(())
/// # }
/// ```
pub struct RateLimit<S, D> {
    inner: S,
    enforcer: Arc<Enforcer<D>>,
}

impl<S, D> RateLimit<S, D> {
    pub(crate) const fn new(inner: S, enforcer: Arc<Enforcer<D>>) -> Self {
        Self { inner, enforcer }
    }

    /// The inner service.
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, D, Q, R> Service<Request<Q>> for RateLimit<S, D>
where
    S: Service<Request<Q>, Response = Response<R>> + Clone,
    D: Decide,
    R: ResponseBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, Q, R, D>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        self.enforcer.count_usage(request.extensions_mut());
        match self.enforcer.immediate(&RequestParts::of(&request)) {
            None => ResponseFuture::plain(self.inner.call(request)),
            Some(immediate) => self.call_other(immediate, request),
        }
    }
}

impl<S, D: Decide> RateLimit<S, D> {
    /// Not inlined, so that the plain path needs no stack for this one.
    #[inline(never)]
    fn call_other<Q, R>(
        &mut self,
        immediate: Immediate,
        request: Request<Q>,
    ) -> ResponseFuture<S, Q, R, D>
    where
        S: Service<Request<Q>, Response = Response<R>> + Clone,
        R: ResponseBody,
    {
        let (enforcer, protocol) =
            (Arc::clone(&self.enforcer), Protocol::of(&RequestParts::of(&request)));
        let admit = match immediate {
            Immediate::Done(Admit::Plain) => {
                return ResponseFuture::plain(self.inner.call(request));
            }
            Immediate::Done(Admit::Admitted(admitted)) => {
                let guard = enforcer.guard(&admitted, request.extensions());
                let after = (enforcer, admitted, guard);
                return ResponseFuture::admitted(self.inner.call(request), after);
            }
            Immediate::Done(Admit::Refused(response)) => {
                return ResponseFuture::ready(response.map(R::from_bytes));
            }
            Immediate::Decide(charges) => {
                Box::pin(async move { enforcer.decide(charges, protocol).await }) as _
            }
            Immediate::Delay(granted) => {
                Box::pin(async move { enforcer.delay(granted, protocol).await }) as _
            }
        };
        // The service that was polled ready is called; a fresh clone takes its place.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        ResponseFuture::deciding(admit, ready, request, Arc::clone(&self.enforcer))
    }
}

impl<S: Clone, D> Clone for RateLimit<S, D> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), enforcer: Arc::clone(&self.enforcer) }
    }
}

impl<S: fmt::Debug, D> fmt::Debug for RateLimit<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut service = f.debug_struct("RateLimit");
        service.field("inner", &self.inner).field("enforcer", &self.enforcer).finish()
    }
}

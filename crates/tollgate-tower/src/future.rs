//! The response of a limited service, stage by stage.
//!
//! A decision that needs no waiting calls the inner service without boxing anything. Only futures
//! that wait (a remote store, a delay, a settlement) are boxed.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::decide::Decide;
use crate::enforce::{Admit, Admitted, Enforcer};
use crate::refusal::{BodyGuard, ResponseBody};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// What remains to be done when the inner service has responded, and what settles the request when
/// the body has ended.
type After<D> = (Arc<Enforcer<D>>, Admitted, Option<BodyGuard>);

pin_project! {
    /// The response of a limited service.
    pub struct ResponseFuture<S, Q, R, D>
    where
        S: Service<Request<Q>>,
    {
        #[pin]
        stage: Stage<S, Q, R, D>,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, Q, R, D>
    where
        S: Service<Request<Q>>,
    {
        Deciding {
            admit: Boxed<Admit>,
            then: Option<Box<(S, Request<Q>)>>,
            enforcer: Arc<Enforcer<D>>,
        },
        Plain { #[pin] inner: S::Future },
        Admitted { #[pin] inner: S::Future, after: Option<After<D>> },
        Settling { settled: Boxed<()>, response: Option<Response<R>> },
        Ready { response: Option<Response<R>> },
    }
}

impl<S: Service<Request<Q>>, Q, R, D> ResponseFuture<S, Q, R, D> {
    pub(crate) fn deciding(
        admit: Boxed<Admit>,
        service: S,
        request: Request<Q>,
        enforcer: Arc<Enforcer<D>>,
    ) -> Self {
        Self {
            stage: Stage::Deciding { admit, then: Some(Box::new((service, request))), enforcer },
        }
    }

    pub(crate) const fn plain(inner: S::Future) -> Self {
        Self { stage: Stage::Plain { inner } }
    }

    pub(crate) const fn admitted(inner: S::Future, after: After<D>) -> Self {
        Self { stage: Stage::Admitted { inner, after: Some(after) } }
    }

    pub(crate) const fn ready(response: Response<R>) -> Self {
        Self { stage: Stage::Ready { response: Some(response) } }
    }
}

impl<S, Q, R, D> Future for ResponseFuture<S, Q, R, D>
where
    S: Service<Request<Q>, Response = Response<R>>,
    D: Decide,
    R: ResponseBody,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageProjection::Deciding { admit, then, enforcer } => {
                    let admit = ready!(admit.as_mut().poll(context));
                    let Some(then) = then.take() else { return Poll::Pending };
                    let (mut service, request) = *then;
                    match admit {
                        Admit::Plain => Stage::Plain { inner: service.call(request) },
                        Admit::Admitted(admitted) => {
                            let guard = enforcer.guard(&admitted, request.extensions());
                            let after = Some((Arc::clone(enforcer), admitted, guard));
                            Stage::Admitted { inner: service.call(request), after }
                        }
                        Admit::Refused(response) => {
                            Stage::Ready { response: Some(response.map(R::from_bytes)) }
                        }
                    }
                }
                // The response is returned as it is, without a move.
                StageProjection::Plain { inner } => return inner.poll(context),
                StageProjection::Admitted { inner, after } => {
                    let mut response = ready!(inner.poll(context))?;
                    let Some((enforcer, admitted, guard)) = after.take() else {
                        return Poll::Ready(Ok(response));
                    };
                    if let Some(guard) = guard {
                        response = response.map(|body| body.guarded(guard));
                    }
                    enforcer.write_fields(&admitted, response.headers_mut());
                    let Admitted::Granted(granted) = admitted else {
                        return Poll::Ready(Ok(response));
                    };
                    let parts = (response.status(), response.headers(), response.extensions());
                    let Some(used) = enforcer.used(&granted, parts) else {
                        return Poll::Ready(Ok(response));
                    };
                    let settled = Box::pin(async move { enforcer.settle(&granted, used).await });
                    Stage::Settling { settled, response: Some(response) }
                }
                StageProjection::Settling { settled, response } => {
                    ready!(settled.as_mut().poll(context));
                    Stage::Ready { response: response.take() }
                }
                // A future that is polled after its end stays pending.
                StageProjection::Ready { response } => {
                    return response
                        .take()
                        .map_or(Poll::Pending, |response| Poll::Ready(Ok(response)));
                }
            };
            stage.set(next);
        }
    }
}

impl<S: Service<Request<Q>>, Q, R, D> fmt::Debug for ResponseFuture<S, Q, R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

//! The response of a limited service, stage by stage.
//!
//! A decision that needs no waiting goes straight to the inner service: nothing is boxed. Only what
//! has to wait (a remote store, a delay, a settlement) waits in a box.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::decide::Decide;
use crate::gate::{Gate, Passage, Passed};
use crate::reply::ReplyBody;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// What remains to be done once the inner service has answered.
type After<D> = Option<(Arc<Gate<D>>, Passed)>;

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
        Deciding { passage: Boxed<Passage>, then: Option<Box<(S, Request<Q>)>>, gate: Arc<Gate<D>> },
        Passing { #[pin] inner: S::Future },
        Calling { #[pin] inner: S::Future, after: After<D> },
        Settling { settled: Boxed<()>, response: Option<Response<R>> },
        Answered { response: Option<Response<R>> },
    }
}

impl<S: Service<Request<Q>>, Q, R, D> ResponseFuture<S, Q, R, D> {
    pub(crate) fn deciding(
        passage: Boxed<Passage>,
        service: S,
        request: Request<Q>,
        gate: Arc<Gate<D>>,
    ) -> Self {
        Self { stage: Stage::Deciding { passage, then: Some(Box::new((service, request))), gate } }
    }

    pub(crate) const fn passing(inner: S::Future) -> Self {
        Self { stage: Stage::Passing { inner } }
    }

    pub(crate) const fn calling(inner: S::Future, gate: Arc<Gate<D>>, passed: Passed) -> Self {
        Self { stage: Stage::Calling { inner, after: Some((gate, passed)) } }
    }

    pub(crate) const fn answered(response: Response<R>) -> Self {
        Self { stage: Stage::Answered { response: Some(response) } }
    }
}

impl<S, Q, R, D> Future for ResponseFuture<S, Q, R, D>
where
    S: Service<Request<Q>, Response = Response<R>>,
    D: Decide,
    R: ReplyBody,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut stage = self.project().stage;
        loop {
            let next = match stage.as_mut().project() {
                StageProjection::Deciding { passage, then, gate } => {
                    let passage = ready!(passage.as_mut().poll(context));
                    let Some(then) = then.take() else { return Poll::Pending };
                    let (mut service, request) = *then;
                    match passage {
                        Passage::Free => Stage::Passing { inner: service.call(request) },
                        Passage::Passed(passed) => {
                            let after = Some((Arc::clone(gate), passed));
                            Stage::Calling { inner: service.call(request), after }
                        }
                        Passage::Refused(response) => {
                            Stage::Answered { response: Some(response.map(R::from_bytes)) }
                        }
                    }
                }
                // Nothing remains to be done: the answer is handed on where it is, and not moved.
                StageProjection::Passing { inner } => return inner.poll(context),
                StageProjection::Calling { inner, after } => {
                    let mut response = ready!(inner.poll(context))?;
                    let Some((gate, passed)) = after.take() else {
                        return Poll::Ready(Ok(response));
                    };
                    gate.stamp(&passed, response.headers_mut());
                    let seen = (response.status(), response.headers(), response.extensions());
                    let Passed::Whole(granted) = passed else {
                        return Poll::Ready(Ok(response));
                    };
                    let Some(used) = gate.used(&granted, seen) else {
                        return Poll::Ready(Ok(response));
                    };
                    let settled = Box::pin(async move { gate.settle(&granted, used).await });
                    Stage::Settling { settled, response: Some(response) }
                }
                StageProjection::Settling { settled, response } => {
                    ready!(settled.as_mut().poll(context));
                    Stage::Answered { response: response.take() }
                }
                // Polled once more after the end: nothing will come, and nobody is woken.
                StageProjection::Answered { response } => {
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

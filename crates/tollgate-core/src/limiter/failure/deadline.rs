//! Ends a call that takes too long.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use crate::clock::{Clock, Sleep};
use crate::error::{Code, Error, Result};
use crate::time::Micros;

/// The answer of a call, or `timeout` once the clock has moved by `deadline` since `from`.
///
/// The call goes first: an answer that is there counts, however late it is looked at. A call that
/// answers at once never touches a clock. A clock that steps back starts the wait over: it must not
/// hold a call for as long as it takes to catch up.
pub(super) async fn within<A>(
    clock: &dyn Clock,
    (from, deadline): (Micros, Micros),
    call: impl Future<Output = A>,
) -> Result<A> {
    let mut call = pin!(call);
    let mut until = from.saturating_add(deadline);
    let mut sleep = Sleep::default();
    poll_fn(move |context| {
        if let Poll::Ready(answer) = call.as_mut().poll(context) {
            return Poll::Ready(Ok(answer));
        }
        until = until.min(clock.now().saturating_add(deadline));
        sleep.poll_until(clock, until, context).map(|()| {
            Err(Error::new(Code::Timeout, "the store did not answer within the deadline"))
        })
    })
    .await
}

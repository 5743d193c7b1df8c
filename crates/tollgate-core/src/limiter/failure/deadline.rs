//! Ends a call that takes too long.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Poll, ready};

use crate::clock::{Clock, Sleep};
use crate::time::Micros;

/// The answer of a call, or nothing once the clock has moved by `deadline` since `from`. The call
/// is dropped by then, so it has recorded all its facts.
///
/// The call goes first: an answer that is there counts, however late it is looked at. A call that
/// answers at once never touches a clock. A clock that steps back starts the wait over: it must not
/// hold a call for as long as it takes to catch up.
pub(super) async fn within<A>(
    clock: &dyn Clock,
    (from, deadline): (Micros, Micros),
    call: impl Future<Output = A>,
) -> Option<A> {
    let mut call = pin!(Some(call));
    let mut until = from.saturating_add(deadline);
    let mut is_first = true;
    let mut sleep = Sleep::default();
    let answer = poll_fn(|context| {
        if let Some(running) = call.as_mut().as_pin_mut()
            && let Poll::Ready(answer) = running.poll(context)
        {
            return Poll::Ready(Some(answer));
        }
        let now = if core::mem::take(&mut is_first) { from } else { clock.now() };
        until = until.min(now.saturating_add(deadline));
        ready!(sleep.poll_until(clock, (now, until), context));
        Poll::Ready(None)
    })
    .await;
    call.set(None);
    answer
}

//! Ends a call that takes too long.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Poll, ready};

use crate::clock::{Alarms, Clock, Sleep};
use crate::error::Result;
use crate::store::patience::{Left, silent, with};
use crate::time::Micros;

/// The answer of a call, or `timeout` once the clock has moved by `deadline` since `from`.
///
/// The call goes first: an answer that is there counts, however late it is looked at. A call that
/// answers at once never touches a clock. When the time is up the call has a last word: it may know
/// that others held it up (`store::patience`). A clock that steps back starts the wait over: it must not
/// hold a call for as long as it takes to catch up.
pub(super) async fn within<A>(
    (clock, alarms): (&dyn Clock, &Alarms),
    (from, deadline): (Micros, Micros),
    call: impl Future<Output = A>,
) -> Result<A> {
    let mut call = pin!(Some(call));
    let mut until = from.saturating_add(deadline);
    let mut is_first = true;
    let mut sleep = Sleep::with(alarms);
    poll_fn(move |context| {
        let now = if core::mem::take(&mut is_first) { from } else { clock.now() };
        until = until.min(now.saturating_add(deadline));
        let is_scarce = until.saturating_sub(now) < deadline / 2;
        let left = if is_scarce { Left::Scarce } else { Left::Ample };
        if let Some(running) = call.as_mut().as_pin_mut()
            && let Poll::Ready(answer) = with(left, || running.poll(context))
        {
            return Poll::Ready(Ok(answer));
        }
        ready!(sleep.poll_until(clock, (now, until), context));
        Poll::Ready(with(Left::Nothing, || {
            let last = call.as_mut().as_pin_mut().map(|running| running.poll(context));
            // Whatever it leaves behind has to know why it ended.
            call.set(None);
            match last {
                Some(Poll::Ready(answer)) => Ok(answer),
                Some(Poll::Pending) | None => Err(silent()),
            }
        }))
    })
    .await
}

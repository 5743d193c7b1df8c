//! Ends a call that takes too long.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Poll, ready};

use crate::clock::{Alarms, Clock, Sleep};
use crate::store::patience::{Left, with};
use crate::time::Micros;

/// The answer of a call, or what `expired` says once the clock has moved by `deadline` since `from`. The call is
/// dropped before `expired` is asked, so that it has recorded all its facts.
///
/// The call goes first: an answer that is there counts, however late it is looked at. A call that
/// answers at once never touches a clock. A clock that steps back starts the wait over: it must not
/// hold a call for as long as it takes to catch up.
pub(super) async fn within<A>(
    (clock, alarms): (&dyn Clock, &Alarms),
    (from, deadline): (Micros, Micros),
    call: impl Future<Output = A>,
    expired: impl FnOnce() -> A,
) -> A {
    let mut call = pin!(Some(call));
    let mut until = from.saturating_add(deadline);
    let mut is_first = true;
    let mut sleep = Sleep::with(alarms);
    let mut expired = Some(expired);
    poll_fn(move |context| {
        let now = if core::mem::take(&mut is_first) { from } else { clock.now() };
        until = until.min(now.saturating_add(deadline));
        let is_scarce = until.saturating_sub(now) < deadline / 2;
        let left = if is_scarce { Left::Scarce } else { Left::Ample };
        if let Some(running) = call.as_mut().as_pin_mut()
            && let Poll::Ready(answer) = with(left, || running.poll(context))
        {
            return Poll::Ready(answer);
        }
        ready!(sleep.poll_until(clock, (now, until), context));
        let last = with(Left::Nothing, || {
            let last = call.as_mut().as_pin_mut().map(|running| running.poll(context));
            // Whatever it leaves behind has to know why it ended.
            call.set(None);
            last
        });
        match (last, expired.take()) {
            (Some(Poll::Ready(answer)), _) => Poll::Ready(answer),
            (_, Some(expired)) => Poll::Ready(expired()),
            (_, None) => Poll::Pending,
        }
    })
    .await
}

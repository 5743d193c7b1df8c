//! What is said when the time is up.

use core::future::{pending, ready};
use core::pin::pin;
use core::task::{Context, Waker};

use super::*;

fn give_up<T>(act: impl FnOnce() -> T) -> T {
    with(Left::Nothing, act)
}

fn poll<T>(call: impl Future<Output = T>) -> Poll<T> {
    pin!(call).poll(&mut Context::from_waker(Waker::noop()))
}

fn code<T>(answer: Poll<Result<T>>) -> Option<Code> {
    match answer {
        Poll::Ready(Err(error)) => Some(error.code()),
        _ => None,
    }
}

#[test]
fn nothing_is_over_outside_of_giving_up() {
    assert!(!is_over() && !is_scarce());
    with(Left::Scarce, || assert!(is_scarce() && !is_over()));
    with(Left::Nothing, || {
        with(Left::Ample, || assert!(is_over()));
        assert!(is_over(), "a call inside of a call is given up with it");
    });
    assert!(!is_over());
    let panicked = std::panic::catch_unwind(|| give_up(|| panic!("on purpose")));
    assert!(panicked.is_err() && !is_over());
}

#[test]
fn words_are_asked_for_only_when_the_time_is_up() {
    let say = || Some(7);
    assert_eq!(poll(last_words(pending::<u8>(), say)), Poll::Pending);
    assert_eq!(poll(last_words(ready(1), say)), Poll::Ready(1));
    assert_eq!(give_up(|| poll(last_words(pending::<u8>(), say))), Poll::Ready(7));
    assert_eq!(give_up(|| poll(last_words(pending::<u8>(), || None))), Poll::Pending);
    assert_eq!(give_up(|| poll(last_words(ready(1), || None))), Poll::Ready(1));
}

#[test]
fn a_batch_whose_time_is_up_has_an_answer_for_everybody() {
    let mut codes = Vec::new();
    for answered in 0..3 {
        let call = |number| async move { if number < answered { Ok(()) } else { pending().await } };
        let mut batch = pin!(one_by_one(0..3, call));
        assert!(poll(batch.as_mut()).is_pending());
        let Poll::Ready(answers) = give_up(|| poll(batch.as_mut())) else {
            panic!("the batch has not ended");
        };
        let code = |answer: Result<()>| answer.err().map(|error| error.code());
        codes.push(answers.into_iter().map(code).collect::<Vec<_>>());
    }
    let (late, full) = (Some(Code::Timeout), Some(Code::QueueFull));
    let cut = Some(Code::ConflictExhausted);
    assert_eq!(codes, [[late, late, late], [None, cut, full], [None, None, cut]]);
}

#[test]
fn whoever_saw_others_served_or_blocked_was_held_up() {
    let progress = Progress::new();
    let silence = pending::<Result<()>>;
    let waiting = progress.wait();
    assert_eq!(give_up(|| code(poll(waiting.answer(silence())))), None);
    assert_eq!(give_up(|| code(poll(waiting.answer_in_batch(silence())))), Some(Code::Timeout));
    progress.set_blocked(true);
    assert_eq!(give_up(|| code(poll(waiting.answer(silence())))), Some(Code::QueueFull));
    progress.set_blocked(false);
    assert!(waiting.held_up().is_none());
    progress.round_ended();
    let late = progress.wait();
    for (waiting, expected) in [(waiting, Some(Code::QueueFull)), (late, None)] {
        assert_eq!(give_up(|| code(poll(waiting.answer(silence())))), expected);
    }
    assert_eq!(code(poll(waiting.answer(silence()))), None, "its time is not up");
}

/// Something that has words to say after `polls` polls, and never ends.
fn held_up_after(polls: u32) -> impl Future<Output = u8> {
    let polled = AtomicU64::new(0);
    async move {
        let silence = pin!(pending());
        let say = || (polled.fetch_add(1, Relaxed) >= u64::from(polls)).then_some(7);
        last_words(silence, say).await
    }
}

#[test]
fn unhurried_work_goes_on_and_its_caller_has_the_last_word() {
    let mut context = Context::from_waker(Waker::noop());
    let mut unhurried = Unhurried::default();
    let mut work = pin!(held_up_after(2));
    for _ in 0..2 {
        let polled = give_up(|| unhurried.poll(work.as_mut(), &mut context));
        assert!(polled.is_pending() && give_up(|| unhurried.last_words()).is_none());
    }
    let polled = give_up(|| unhurried.poll(work.as_mut(), &mut context));
    assert!(polled.is_pending(), "the work ended with the time of its caller");
    assert!(unhurried.last_words().is_none(), "its time is not up");
    let words = give_up(|| unhurried.last_words()).map(|error| error.code());
    assert_eq!(words, Some(Code::ConflictExhausted));
    // Whatever comes then: it was held up since it began.
    let mut rest = pin!(async { assert!(!is_over() && !is_scarce()) });
    assert!(give_up(|| unhurried.poll(rest.as_mut(), &mut context)).is_ready());
    assert!(give_up(|| unhurried.last_words()).is_some());
    assert!(give_up(|| poll(held_up_after(0))).is_ready(), "nobody listens any more");
    let mut other = Unhurried::default();
    note_held_up();
    assert!(other.poll(pin!(async {}), &mut context).is_ready());
    assert!(give_up(|| other.last_words()).is_none(), "what others note does not concern it");
    assert!(other.poll(pin!(async { note_held_up() }), &mut context).is_ready());
    assert!(give_up(|| other.last_words()).is_some());
}

#[test]
fn those_behind_a_round_are_held_up_as_long_as_it_is() {
    let progress = Progress::new();
    let waiting = progress.wait();
    let mut round = Box::pin(progress.round(held_up_after(1)));
    assert!(poll(round.as_mut()).is_pending() && waiting.held_up().is_none());
    assert!(poll(round.as_mut()).is_pending() && waiting.held_up().is_some());
    assert_eq!(give_up(|| poll(round.as_mut())), Poll::Ready(7), "its own time may be up");
    drop(round);
    assert!(waiting.held_up().is_none());
    assert_eq!(poll(progress.round(ready(1))), Poll::Ready(1));
}

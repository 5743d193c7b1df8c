//! Callers that are cancelled while several slots are charged one after another.

use core::future::Future as _;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::cell::RefCell;
use std::sync::Arc;

use tollgate_core::store::{CallContext, Retries, Store};
use tollgate_core::{
    Admission, BoxFuture, Charge, Limit, Limiter, ManualClock, OutageMode, Quota, RequestId,
    algorithm as a,
};
use tollgate_testkit::contention::Losses;
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::block_on;

use super::Plain;
use super::drops::{Caller, Slow};
use crate::slot::slot_of;
use crate::transport::{Sharing, Transport};
use crate::{KeyLayout, Redis};

thread_local! {
    /// What was spawned and has not ended.
    static WORK: RefCell<Vec<BoxFuture<'static, ()>>> = const { RefCell::new(Vec::new()) };
}

fn spawn(work: BoxFuture<'static, ()>) {
    WORK.with_borrow_mut(|all| all.push(work));
}

/// Goes on with one of those that were spawned; whether there are any.
fn work(rng: &mut Rng) -> bool {
    let one = WORK.with_borrow_mut(|all| {
        let count = all.len() as u64;
        (count > 0).then(|| all.swap_remove(usize::try_from(rng.below(count)).unwrap()))
    });
    let Some(mut one) = one else { return false };
    if one.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        WORK.with_borrow_mut(|all| all.push(one));
    }
    true
}

/// One server that is treated as if its slots were on several.
fn slow(spawner: Option<crate::transport::Spawner>) -> Slow {
    let (plain, sent) = (Plain::connect(), Arc::default());
    Slow { plain, sent, sharing: Sharing::SameSlot, spawner }
}

pub(super) fn limit(prefix: &str, policy: &str, units: u64) -> Limit {
    let day = Duration::from_secs(86_400);
    let gcra = a::Gcra::new(Quota::new(units, day)).unwrap();
    Limit::new(policy, gcra).unwrap().with_prefix(prefix).unwrap()
}

pub(super) fn spent<T: Transport>(store: &Redis<T>, charge: Charge<'_>) -> u64 {
    let loaded = block_on(store.load(&[charge], CallContext::store_clock())).unwrap();
    let words = loaded.states[0].as_ref().map_or_else(Vec::new, |state| state.words.to_vec());
    let looked = charge.rule().peek(&words, loaded.now, charge.cost);
    looked.limit - looked.remaining
}

/// Polls a caller this often and cancels it: whether it had its answer by then.
fn leaves_after(mut caller: Caller<'_>, polls: usize) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    (0..polls).any(|_| caller.as_mut().poll(&mut context).is_ready())
}

/// Where nothing can be spawned the work ends with its caller, wherever that leaves.
#[test]
fn without_a_runtime_a_cancelled_caller_spends_its_own_units_at_most() {
    let store = Redis::over(slow(None));
    let (mut points, mut left_spent) = (0, 0);
    loop {
        let prefix = format!("leaves-{points}");
        let (wide, narrow) = (limit(&prefix, "wide", 100), limit(&prefix, "narrow", 1));
        let charges = [wide.charge("b"), narrow.charge("a")];
        let slots = charges.map(|charge| slot_of(charge.key().to_text().as_bytes()));
        assert!(slots[0] < slots[1], "the one that is not denied has to be charged first");
        let admission = Admission::of(&charges);
        let first = block_on(store.admit(&admission, CallContext::store_clock())).unwrap();
        assert!(decisions_of(&admission, &first).unwrap().admitted);
        // The second is denied: the first slot is charged and undone.
        let caller = Box::pin(store.admit(&admission, CallContext::store_clock()));
        let is_over = leaves_after(caller, points);
        let stays = spent(&store, charges[0]) - 1;
        assert!(stays <= 1, "{stays} units of one caller stay spent at point {points}");
        assert_eq!(spent(&store, charges[1]), 1, "point {points}");
        // The others are served, and find no more than there is.
        let others = [wide.charge("b")];
        let others = Admission::of(&others);
        let admitted = (0..120).filter(|_| {
            let outcome = block_on(store.admit(&others, CallContext::store_clock())).unwrap();
            decisions_of(&others, &outcome).unwrap().admitted
        });
        assert_eq!(admitted.count() as u64, 99 - stays, "point {points}");
        left_spent += stays;
        if is_over {
            assert_eq!(stays, 0, "no caller was cancelled, and units stay spent");
            break;
        }
        points += 1;
    }
    eprintln!("{points} points to leave at, at {left_spent} of them the units stay spent");
    assert!(
        left_spent > 0 && left_spent < points as u64,
        "the caller left at the same point always"
    );
}

/// Where work can be spawned, a caller that leaves changes nothing: all or nothing.
#[test]
fn with_a_runtime_a_cancelled_caller_is_charged_everywhere_or_nowhere() {
    const CALLERS: u64 = 24;
    let store = Redis::over(slow(Some(spawn)));
    let mut context = Context::from_waker(Waker::noop());
    let [mut all_admitted, mut all_gone, mut all_spent] = [0; 3];
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let prefix = format!("detached-{seed}");
        let (wide, narrow) = (limit(&prefix, "wide", 100), limit(&prefix, "narrow", 10));
        let charges = [wide.charge("b"), narrow.charge("a"), wide.charge("c")];
        let ids: Vec<String> = (0..CALLERS).map(|id| id.to_string()).collect();
        let admissions: Vec<Admission<'_>> = ids
            .iter()
            .map(|id| match rng.one_in(2) {
                true => Admission::of(&charges).request_id(RequestId::new(id).unwrap()),
                false => Admission::of(&charges),
            })
            .collect();
        let mut callers: Vec<Option<Caller<'_>>> = admissions
            .iter()
            .map(|one| Some(Box::pin(store.admit(one, CallContext::store_clock())) as Caller<'_>))
            .collect();
        let mut admitted = 0;
        let mut turns = 0;
        while callers.iter().any(Option::is_some) {
            turns += 1;
            assert!(turns < 100_000, "seed {seed}: a caller waits for ever");
            if rng.one_in(2) {
                work(&mut rng);
            }
            let at = usize::try_from(rng.below(CALLERS)).unwrap();
            let Some(caller) = &mut callers[at] else { continue };
            if rng.one_in(20) {
                callers[at] = None;
                all_gone += 1;
            } else if let Poll::Ready(outcome) = caller.as_mut().poll(&mut context) {
                callers[at] = None;
                let plan = decisions_of(&admissions[at], &outcome.unwrap()).unwrap();
                admitted += u64::from(plan.admitted);
            }
        }
        while work(&mut rng) {}
        let counts = charges.map(|charge| spent(&store, charge));
        assert_eq!(counts, [counts[0]; 3], "seed {seed}: charged here and not there");
        assert!(admitted <= counts[0] && counts[0] <= 10, "seed {seed}: {admitted}, {counts:?}");
        all_admitted += admitted;
        all_spent += counts[0];
    }
    eprintln!("{all_admitted} admitted, {all_spent} charged, {all_gone} gone");
    assert!(all_gone > 100 && all_admitted > 100 && all_spent > all_admitted);
}

/// Other callers charge the first slot all the time. A caller whose deadline expires before it lost
/// a race has met a silent server; from then on it has met contention. What it took is given back
/// without it.
#[test]
fn a_caller_that_lost_a_race_reports_contention_at_every_point() {
    const OTHERS_GO_ON: u64 = 300;
    let mut context = Context::from_waker(Waker::noop());
    let (mut answers, mut most_losses) = (Vec::new(), 0);
    for polls in 1..40 {
        let prefix = format!("outrun-{polls}");
        let (wide, narrow) = (limit(&prefix, "wide", 1_000), limit(&prefix, "narrow", 1));
        let losses = Losses::default();
        let (layout, retries) = (KeyLayout::default(), Retries::default());
        let store = Redis::with_options(slow(Some(spawn)), layout, retries, losses.clone());
        let others = Redis::over(Plain::connect());
        let charges = [wide.charge("b"), narrow.charge("a")];
        let take = |charge| {
            let outcome =
                block_on(others.admit(&Admission::of(&[charge]), CallContext::store_clock()));
            assert!(decisions_of(&Admission::of(&[charge]), &outcome.unwrap()).unwrap().admitted);
        };
        take(charges[1]);
        let clock = ManualClock::at(0);
        let limiter = Limiter::with_clock(store.clone(), clock.clone()).build();
        let admission = Admission::of(&charges);
        let mut call = Box::pin(limiter.check(&admission));
        for _ in 0..polls {
            assert!(
                call.as_mut().poll(&mut context).is_pending(),
                "no other caller was in the way"
            );
            take(charges[0]);
        }
        clock.advance(Duration::from_secs(60));
        answers.push(match call.as_mut().poll(&mut context) {
            Poll::Ready(Ok(decision)) => decision.degraded.map_or("denied", OutageMode::as_str),
            Poll::Ready(Err(error)) => error.code().as_str(),
            Poll::Pending => "nothing",
        });
        drop(call);
        let mut rng = Rng::new(polls);
        let mut turns = 0;
        while work(&mut rng) {
            losses.let_go_on();
            turns += 1;
            assert!(turns < 100_000, "the work does not end");
            if turns <= OTHERS_GO_ON {
                take(charges[0]);
            }
        }
        let others = polls + turns.min(OTHERS_GO_ON);
        assert_eq!(spent(&store, charges[0]), others, "{polls}: given back, and no more");
        most_losses = most_losses.max(losses.count());
    }
    assert!(most_losses > 20, "{most_losses} losses are fewer than the retries");
    let silent = answers.iter().take_while(|answer| **answer == "open").count();
    eprintln!("at {silent} of {} points no race was lost yet", answers.len());
    assert!((1..10).contains(&silent), "{answers:?}");
    assert!(answers[silent..].iter().all(|answer| *answer == "conflict_exhausted"), "{answers:?}");
}

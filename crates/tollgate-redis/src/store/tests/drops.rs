//! Callers that go away: the others get their answers, and nobody is charged twice.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{CallContext, Evidence, Store};
use tollgate_core::{Admission, Code, Limit, Quota, Result, algorithm as a};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::rng::Rng;

use super::Plain;
use crate::RedisStore;
use crate::transport::{Call, Reply, Sharing, Spawner, Transport};

/// Answers only after having been asked again: there is time to go away before and after the call.
pub(super) struct Slow {
    pub(super) plain: Plain,
    pub(super) sent: Arc<AtomicU64>,
    pub(super) sharing: Sharing,
    pub(super) spawner: Option<Spawner>,
}

async fn pause() {
    let mut waited = false;
    core::future::poll_fn(|context: &mut Context<'_>| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Transport for Slow {
    fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn spawner(&self) -> Option<Spawner> {
        self.spawner
    }

    async fn send(&self, call: &Call) -> Result<Reply> {
        pause().await;
        self.sent.fetch_add(1, Ordering::SeqCst);
        let reply = self.plain.send(call).await;
        pause().await;
        reply
    }
}

pub(super) type Caller<'a> = Pin<Box<dyn Future<Output = Result<Evidence>> + Send + 'a>>;

/// Polls callers in a random order and lets some of them go: (admitted, failed, gone).
fn schedule(
    rng: &mut Rng,
    mut callers: Vec<Option<Caller<'_>>>,
    admission: &Admission<'_>,
) -> [u64; 3] {
    let mut context = Context::from_waker(Waker::noop());
    let [mut admitted, mut failed, mut gone] = [0; 3];
    let mut turns = 0;
    while callers.iter().any(Option::is_some) {
        turns += 1;
        assert!(turns < 100_000, "somebody waits for ever");
        let at = usize::try_from(rng.below(callers.len() as u64)).unwrap();
        let Some(caller) = &mut callers[at] else { continue };
        if rng.one_in(12) {
            callers[at] = None;
            gone += 1;
            continue;
        }
        if let Poll::Ready(outcome) = caller.as_mut().poll(&mut context) {
            callers[at] = None;
            match outcome {
                Ok(outcome) => {
                    admitted += u64::from(decisions_of(admission, &outcome).unwrap().admitted);
                }
                Err(error) => {
                    // Whoever goes away must not let others in.
                    assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
                    failed += 1;
                }
            }
        }
    }
    [admitted, failed, gone]
}

#[test]
fn nobody_waits_for_ever_and_nobody_is_charged_twice() {
    const CALLERS: u64 = 24;
    let sent = Arc::new(AtomicU64::new(0));
    let (plain, sharing) = (Plain::connect(), Sharing::AnyKeys);
    let store = RedisStore::over(Slow { plain, sent: sent.clone(), sharing, spawner: None });
    let mut totals = [0; 3];
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let gcra = a::Gcra::new(Quota::new(1_000, std::time::Duration::from_secs(86_400))).unwrap();
        let limit =
            Limit::new("drops", gcra).unwrap().with_prefix(&format!("drops-{seed}")).unwrap();
        let charges = [limit.charge("everybody")];
        let admission = Admission::of(&charges);
        let callers: Vec<Option<Caller<'_>>> = (0..CALLERS)
            .map(|_| {
                Some(Box::pin(store.admit(&admission, CallContext::store_clock())) as Caller<'_>)
            })
            .collect();
        let [admitted, failed, gone] = schedule(&mut rng, callers, &admission);
        let loaded =
            tollgate_testkit::runtime::block_on(store.load(&charges, CallContext::store_clock()));
        let loaded = loaded.unwrap();
        let words = loaded.states[0].as_ref().map_or_else(Vec::new, |state| state.words.to_vec());
        let charged = 1_000 - charges[0].rule().peek(&words, loaded.now, charges[0].cost).remaining;
        assert_eq!(admitted + failed + gone, CALLERS, "seed {seed}");
        assert!(admitted <= charged, "seed {seed}: somebody was admitted without a charge");
        assert!(charged <= CALLERS, "seed {seed}: somebody was charged twice");
        for (total, count) in totals.iter_mut().zip([admitted, failed, gone]) {
            *total += count;
        }
    }
    let [admitted, failed, gone] = totals;
    let calls = sent.load(Ordering::SeqCst);
    eprintln!("{admitted} admitted, {failed} lost their leader, {gone} went away, {calls} calls");
    assert!(gone > 300 && admitted > 300 && failed > 0);
    assert!(calls < admitted, "waiting callers share calls");
}

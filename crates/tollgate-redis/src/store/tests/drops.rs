//! Callers that are cancelled: the others get their answers, and none is charged twice.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::store::{CallContext, Evidence, Store};
use tollgate_core::{Admission, Limit, Quota, Result, algorithm as a};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::rng::Rng;

use super::Plain;
use crate::Redis;
use crate::transport::{Call, Reply, Sharing, Spawner, Transport};

/// Answers only after another poll: a caller can be cancelled before and after the call.
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

/// Polls callers in a random order and cancels some of them: (admitted, cancelled).
fn schedule(
    rng: &mut Rng,
    mut callers: Vec<Option<Caller<'_>>>,
    admission: &Admission<'_>,
) -> [u64; 2] {
    let mut context = Context::from_waker(Waker::noop());
    let [mut admitted, mut cancelled] = [0; 2];
    let mut turns = 0;
    while callers.iter().any(Option::is_some) {
        turns += 1;
        assert!(turns < 100_000, "a caller waits for ever");
        let at = usize::try_from(rng.below(callers.len() as u64)).unwrap();
        let Some(caller) = &mut callers[at] else { continue };
        if rng.one_in(12) {
            callers[at] = None;
            cancelled += 1;
            continue;
        }
        if let Poll::Ready(outcome) = caller.as_mut().poll(&mut context) {
            callers[at] = None;
            // A cancelled leader hands its round over: no other caller fails.
            let outcome = outcome.unwrap();
            admitted += u64::from(decisions_of(admission, &outcome).unwrap().admitted);
        }
    }
    [admitted, cancelled]
}

#[test]
fn no_caller_waits_for_ever_and_none_is_charged_twice() {
    const CALLERS: u64 = 24;
    let sent = Arc::new(AtomicU64::new(0));
    let (plain, sharing) = (Plain::connect(), Sharing::AnyKeys);
    let store = Redis::over(Slow { plain, sent: sent.clone(), sharing, spawner: None });
    let mut totals = [0; 2];
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let gcra = a::Gcra::new(Quota::new(1_000, std::time::Duration::from_secs(86_400))).unwrap();
        let limit =
            Limit::new("drops", gcra).unwrap().with_prefix(&format!("drops-{seed}")).unwrap();
        let charges = [limit.charge("shared")];
        let admission = Admission::of(&charges);
        let callers: Vec<Option<Caller<'_>>> = (0..CALLERS)
            .map(|_| {
                Some(Box::pin(store.admit(&admission, CallContext::store_clock())) as Caller<'_>)
            })
            .collect();
        let [admitted, cancelled] = schedule(&mut rng, callers, &admission);
        let loaded =
            tollgate_testkit::runtime::block_on(store.load(&charges, CallContext::store_clock()));
        let loaded = loaded.unwrap();
        let words = loaded.states[0].as_ref().map_or_else(Vec::new, |state| state.words.to_vec());
        let charged = 1_000 - charges[0].rule().peek(&words, loaded.now, charges[0].cost).remaining;
        assert_eq!(admitted + cancelled, CALLERS, "seed {seed}");
        assert!(admitted <= charged, "seed {seed}: a caller was admitted without a charge");
        assert!(charged <= CALLERS, "seed {seed}: a caller was charged twice");
        for (total, count) in totals.iter_mut().zip([admitted, cancelled]) {
            *total += count;
        }
    }
    let [admitted, cancelled] = totals;
    let calls = sent.load(Ordering::SeqCst);
    eprintln!("{admitted} admitted, {cancelled} cancelled, {calls} calls");
    assert!(cancelled > 300 && admitted > 300);
    assert!(calls < admitted, "waiting callers share calls");
}

//! Objects that fail or panic for some subjects: what was charged before is undone, and the outage
//! mode of the limit decides.
#![expect(clippy::expect_used, clippy::panic, reason = "in a test, a panic is the message")]

use core::time::Duration;

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Code, Limit, OutageMode, Quota, RequestId};
use tollgate_testkit::helpers::{spent, take};
use tollgate_worker::{LimitsObject, abort_on_panic, limiter};
use worker::{DurableObject, Env, Request, Response, Result, State, durable_object};

/// Enough pairs that in some the object that fails is charged second.
const PAIRS: usize = 16;
const CX: CallContext<'static> = CallContext::at(1_700_000_000_000_000);

/// Lets SQLite refuse writes on the subject `full-store`, as it refuses all of them at the bound of
/// a database.
pub(crate) const REFUSE_FULL: &str = "CREATE TRIGGER IF NOT EXISTS full BEFORE INSERT ON \
     tollgate_values WHEN new.name LIKE '%{full-store}%' BEGIN \
     SELECT RAISE(ABORT, 'database or disk is full: SQLITE_FULL'); END";

/// An object that fails before it decides, where a subject is called `broken`, panics where one is
/// called `panics`, and has no room for one that is called `full-store`.
#[durable_object(fetch)]
#[derive(Debug)]
pub struct Fragile {
    limits: LimitsObject,
    state: State,
}

impl DurableObject for Fragile {
    fn new(state: State, _: Env) -> Self {
        Self { limits: LimitsObject::sqlite(&state), state }
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        abort_on_panic(&self.state, self.answer(request)).await
    }
}

impl Fragile {
    async fn answer(&self, request: Request) -> Result<Response> {
        let text = request.clone()?.text().await?;
        match () {
            () if text.contains("broken") => Err("as it was asked to".into()),
            () if text.contains("panics") => panic!("as it was asked to"),
            () if text.contains("full-store") => {
                self.state.storage().sql().exec(REFUSE_FULL, None)?;
                self.limits.fetch(request).await
            }
            () => self.limits.fetch(request).await,
        }
    }
}

fn limit(prefix: &str) -> Limit {
    let month = Duration::from_secs(30 * 86_400);
    let limit = Limit::gcra("wide", Quota::new(10, month)).expect("an accepted quota");
    limit.with_prefix(prefix).expect("an accepted prefix")
}

/// Panics if a charge stays that another object did not allow.
pub(crate) async fn an_error_undoes_what_was_charged<S: Store>(store: &S, prefix: &str) {
    let limit = limit(prefix);
    for pair in 0..PAIRS {
        let [left, right] = [format!("left-{pair}"), format!("broken-{pair}")];
        let charges = [limit.charge(&left), limit.charge(&right)];
        take(store, charges[0], CX).await.expect("decides");
        let failed = store.admit(&Admission::of(&charges), CX).await;
        assert_eq!(failed.map_err(|error| error.code()).err(), Some(Code::StoreUnavailable));
        // The record of a request id is in the object of its first key, which is charged last.
        let id = RequestId::new("id").expect("an accepted id");
        let once = store.admit(&Admission::of(&charges).request_id(id), CX).await;
        assert_eq!(once.map_err(|error| error.code()).err(), Some(Code::StoreUnavailable));
        let left = spent(store, charges[0], CX).await.expect("is read");
        assert_eq!(left, 1, "a charge of an admission that failed is left");
    }
}

/// Panics if the outage mode of a limit does not decide where the object fails.
pub(crate) async fn the_outage_mode_decides<S: Store>(store: S, prefix: &str) {
    let limiter = limiter(store).deadline(Duration::from_secs(30)).build();
    for mode in [OutageMode::Open, OutageMode::Closed, OutageMode::Local] {
        let limit = limit(prefix).on_outage(mode);
        let healthy = limiter.check(limit.charge("healthy")).await.expect("decides");
        assert!(healthy.is_allowed() && healthy.degraded.is_none(), "{healthy:?}");
        let broken = limiter.check(limit.charge("broken")).await.expect("the mode decides");
        assert_eq!(broken.degraded, Some(mode), "{broken:?}");
        assert_eq!(broken.is_allowed(), mode != OutageMode::Closed, "{broken:?}");
    }
}

/// Panics if a store without room lets a caller pass. The object of the subject has a table.
pub(crate) async fn a_full_store_admits_none<S: Store>(store: S, prefix: &str) {
    let limiter = limiter(store).deadline(Duration::from_secs(30)).build();
    let limit = limit(prefix).on_outage(OutageMode::Open);
    let refused = limiter.check(limit.charge("full-store")).await;
    assert_eq!(refused.map_err(|error| error.code()).err(), Some(Code::StoreFull));
}

//! Objects that reclaim their storage: by their alarm, and where there is no room for request ids.

use core::time::Duration;
use std::sync::Arc;

use serde::Deserialize;
use tollgate_core::store::{Bounds, CallContext, Store as _, WhenIdsFull};
use tollgate_core::{
    Admission, Charge, Clock as _, Code, Limit, Micros, Quota, Receipt, RequestId,
};
use tollgate_testkit::helpers::{take, take_once};
use tollgate_worker::{ObjectStore, WorkerClock};
use worker::{DurableObject, Env, Request, Response, Result, State, durable_object};

/// More than an alarm deletes at once.
const KEYS: usize = 1_200;
/// As many request ids as one page of a sweep has.
const IDS: usize = 1_000;
const DAY: Micros = 86_400_000_000;

/// The storage of an object, and a store over it.
#[derive(Debug)]
struct Reclaimed {
    store: Arc<ObjectStore>,
    /// One that the alarm does not sweep.
    ids: Arc<ObjectStore>,
    state: State,
    is_sqlite: bool,
}

#[derive(Deserialize)]
struct Count {
    number: u32,
}

macro_rules! reclaimed {
    ($($(#[$doc:meta])* $name:ident $class:ident $is_sqlite:literal;)*) => {
        $(
            $(#[$doc])*
            #[durable_object(alarm)]
            #[derive(Debug)]
            pub struct $name(Reclaimed);

            impl DurableObject for $name {
                fn new(state: State, _: Env) -> Self {
                    let store = ObjectStore::$class(&state).slack(Duration::ZERO);
                    let store = store.reclaim_every(Some(Duration::from_millis(100)));
                    let ids = ObjectStore::$class(&state).max_request_ids(IDS);
                    let (store, ids) = (Arc::new(store), Arc::new(ids));
                    Self(Reclaimed { store, ids, state, is_sqlite: $is_sqlite })
                }

                async fn fetch(&self, request: Request) -> Result<Response> {
                    let clause = request.path();
                    self.0.run(clause.trim_matches('/')).await
                }

                async fn alarm(&self) -> Result<Response> {
                    self.0.store.alarm().await.map_err(text)?;
                    Response::ok("")
                }
            }
        )*
    };
}

reclaimed! {
    /// In SQLite.
    ReclaimedSqlite sqlite true;
    /// In key-value storage.
    ReclaimedKeyValue key_value false;
}

impl Reclaimed {
    async fn run(&self, clause: &str) -> Result<Response> {
        match clause {
            "fill" => {
                self.fill().await.map_err(text)?;
                Response::ok("filled")
            }
            "count" => Response::ok(self.count().await?.to_string()),
            "forget" => {
                self.forget().await.map_err(text)?;
                Response::ok("passed")
            }
            "ids" => {
                self.ids().await.map_err(text)?;
                Response::ok("passed")
            }
            _ => Response::error("no such clause", 404),
        }
    }

    /// Keys that mean nothing any more, and one that stays charged.
    async fn fill(&self) -> tollgate_core::Result<()> {
        let past = CallContext::at(1_700_000_000_000_000);
        let fast = Limit::gcra("fast", Quota::new(1, Duration::from_millis(1)))?;
        for number in 0..KEYS {
            take(&self.store, fast.charge(&number.to_string()), past).await?;
        }
        let slow = Limit::gcra("slow", Quota::new(1, Duration::from_secs(86_400)))?;
        take(&self.store, slow.charge("stays"), CallContext::at(WorkerClock.now())).await?;
        Ok(())
    }

    /// How many values are stored.
    async fn count(&self) -> Result<u32> {
        let storage = self.state.storage();
        if !self.is_sqlite {
            return Ok(storage.list().await?.size());
        }
        let count = "SELECT count(*) AS number FROM tollgate_values";
        Ok(storage.sql().exec(count, None)?.one::<Count>()?.number)
    }

    /// A sweep has passed all request ids before they expire. Once they have, there is room.
    async fn ids(&self) -> tollgate_core::Result<()> {
        let limit = Limit::gcra("ids", Quota::new(10_000, Duration::from_secs(86_400)))?;
        let now = WorkerClock.now();
        let at = |days: u64| CallContext::at(now + days * DAY);
        for number in 0..IDS {
            take_once(&self.store, limit.charge("k"), &number.to_string(), at(1)).await?;
        }
        self.ids.alarm().await?;
        let refuse = Bounds::new().when_ids_full(WhenIdsFull::Refuse);
        let refusing = limit.clone().bounded(refuse);
        let full = take_once(&self.ids, refusing.charge("k"), "more", at(1)).await;
        assert_eq!(full.map_err(|error| error.code()), Err(Code::QueueFull));
        take_once(&self.ids, limit.charge("k"), "next", at(3)).await?;
        Ok(())
    }

    /// The oldest request ids make room, by the bound of a policy; that of a settlement never does.
    async fn forget(&self) -> tollgate_core::Result<()> {
        let limit = Limit::gcra("bounded", Quota::new(10_000, Duration::from_secs(86_400)))?;
        let limit = limit.bounded(Bounds::new().max_request_ids(160));
        let at = |after: u64| CallContext::at(WorkerClock.now() + DAY + after);
        let (cx, key) = (at(0), limit.charge("0"));
        take_once(&self.ids, key, "first", cx).await?;
        take_once(&self.ids, key.refund(Receipt::Newest), "refund", cx).await?;
        for number in 0..400_u64 {
            let (subject, id) = ((number % 20).to_string(), number.to_string());
            take_once(&self.ids, limit.charge(&subject), &id, at(number)).await?;
            let kept = number + 3 - self.ids.forgotten_request_ids();
            assert!(kept <= 161, "{kept} of 160 are kept after {number}");
        }
        let is_replayed = async |charge: Charge<'_>, id: &str| {
            let charges = [charge];
            let admission = Admission::of(&charges).request_id(RequestId::new(id)?);
            self.ids.admit(&admission, at(500)).await.map(|evidence| evidence.replayed.is_some())
        };
        assert!(is_replayed(limit.charge("19"), "399").await?, "the newest is forgotten");
        assert!(is_replayed(key.refund(Receipt::Newest), "refund").await?, "it was made again");
        assert!(!is_replayed(key, "first").await?, "the oldest is kept");
        Ok(())
    }
}

/// Runs a clause in the object of a prefix.
pub(crate) async fn run(env: &Env, binding: &str, clause: (&str, &str)) -> Result<Response> {
    let (clause, prefix) = clause;
    let object = env.durable_object(binding)?.get_by_name(prefix)?;
    object.fetch_with_str(&format!("https://reclaimed/{clause}")).await
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn text(error: tollgate_core::Error) -> worker::Error {
    worker::Error::from(error.to_string())
}

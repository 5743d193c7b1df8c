//! Policies are replaced while requests are decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tokio::task::JoinSet;
use tollgate::Limiter;
use tollgate::store::{BoxStore, Memory};
use tollgate_server::Config;
use tollgate_server::engine::{CheckRequest, Engine};
use tollgate_server::policy::Policies;

fn policies(text: &str) -> Policies {
    Config::of_text(&[], |_| None, Some(("t.yaml", text))).unwrap().policies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_under_load_fails_no_request_and_refills_nothing() {
    let quota = |days: u64| policies(&format!("policies: {{p: {{limit: 1_000 per {days}d}}}}"));
    let limiter = Limiter::new(BoxStore::new(Memory::new()));
    let engine = Arc::new(Engine::new(limiter, quota(1)));
    let (allowed, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for _ in 0..4 {
        let (engine, allowed, ends) =
            (Arc::clone(&engine), Arc::clone(&allowed), Arc::clone(&ends));
        callers.spawn(async move {
            while !ends.load(Relaxed) {
                let answer = engine.acquire(CheckRequest::new("p", "k")).await.unwrap();
                allowed.fetch_add(u64::from(answer.decision.is_allowed()), Relaxed);
                tokio::task::yield_now().await;
            }
        });
    }
    for round in 0..200 {
        engine.replace_policies(quota(1 + round % 2));
        tokio::task::yield_now().await;
    }
    while engine.acquire(CheckRequest::new("p", "k")).await.unwrap().decision.is_allowed() {
        allowed.fetch_add(1, Relaxed);
    }
    ends.store(true, Relaxed);
    callers.join_all().await;
    // A unit takes over a minute to come back: exactly the limit passes, whenever policies were
    // reloaded.
    assert_eq!(allowed.load(Relaxed), 1_000);
}

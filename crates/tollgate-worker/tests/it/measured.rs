//! Numbers for `docs/cloudflare.md`: the size of the Worker, the latency of a decision over each
//! store, and how much more than the limit Workers KV admits. They are printed; only the size has a
//! bound.

use std::fs;
use std::process::Command;

use tollgate_api_tests::{Client, Running as _, Setup, Target as _};
use tollgate_core::{Clock as _, SystemClock};
use tollgate_test_servers::workerd::build;

use crate::ready::Ready;

/// What Cloudflare counts is the compressed size. Its own bound is 3 MB.
const GZIP_MAX_BYTES: usize = 400 * 1_024;
const LIMITED: &str = "policies: {p: {limit: 50 per 1d}}";

#[test]
fn the_ready_worker_is_small() {
    let folder = build("tollgate-cloudflare").unwrap();
    let mut sum = 0;
    for name in ["index_bg.wasm", "index.js"] {
        let path = folder.join(name);
        let gzip = Command::new("gzip").args(["-9", "-c"]).arg(&path).output().unwrap().stdout;
        println!("{name}: {} bytes, {} with gzip", fs::metadata(path).unwrap().len(), gzip.len());
        sum += gzip.len();
    }
    assert!(sum < GZIP_MAX_BYTES, "{sum} bytes with gzip");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_takes_some_milliseconds() {
    for store in ["durable_object", "d1", "kv"] {
        let server = Ready { store }.start(Setup::of("policies: {p: {limit: 1000 per 1d}}")).await;
        let client = Client::of(&server);
        let (clock, mut took) = (SystemClock::new(), Vec::new());
        for number in 0..200 {
            let body = format!(r#"{{"policy":"p","key":"key-{}"}}"#, number % 20);
            let start = clock.now();
            let (status, reply) = client.post("/v1/acquire", &body).await;
            took.push(clock.now() - start);
            assert_eq!(status, 200, "{reply}");
        }
        took.sort_unstable();
        println!("{store}: median {} µs, 99 of 100 within {} µs", took[100], took[198]);
        server.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_kv_admits_more_than_the_limit() {
    let server = Ready { store: "kv" }.start(Setup::of(LIMITED)).await;
    let client = Client::of(&server);
    let checks = (0..200).map(|_| {
        let client = client.clone();
        tokio::spawn(
            async move { client.post("/v1/acquire", r#"{"policy":"p","key":"hot"}"#).await },
        )
    });
    let (mut allowed, mut failed) = (0, 0);
    for check in checks.collect::<Vec<_>>() {
        let (status, reply) = check.await.unwrap();
        allowed += u32::from(status == 200 && reply["allowed"] == true);
        failed += u32::from(status != 200);
    }
    println!(
        "Workers KV: of 200 concurrent checks at a limit of 50, {allowed} passed, {failed} failed"
    );
    assert!(allowed >= 50, "{allowed} passed");
    server.end().await;
}

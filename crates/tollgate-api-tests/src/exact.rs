//! Exactly the limit, with many concurrent clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::task::JoinSet;

use crate::{Client, Running, Setup, Target};

const CLIENTS: usize = 200;
const LIMIT: u64 = 50;

/// Of 200 requests at once, as many pass as the limit says.
pub async fn two_hundred_clients_get_exactly_the_limit(target: &impl Target) {
    let policies = format!("policies: {{p: {{limit: {LIMIT} per 1d}}}}");
    let server = target.start(Setup::of(&policies)).await;
    let (client, allowed) = (Client::of(&server), Arc::new(AtomicU64::new(0)));
    let mut requests = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, allowed) = (client.clone(), Arc::clone(&allowed));
        requests.spawn(async move {
            let (status, reply) = client.post("/v1/acquire", r#"{"policy":"p","key":"hot"}"#).await;
            assert_eq!(status, 200, "{reply}");
            allowed.fetch_add(u64::from(reply["allowed"] == true), Relaxed);
        });
    }
    requests.join_all().await;
    assert_eq!(allowed.load(Relaxed), LIMIT);
    server.end().await;
}

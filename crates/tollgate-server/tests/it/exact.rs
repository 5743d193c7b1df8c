//! Exactly the limit, over every protocol, with many concurrent clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::task::JoinSet;
use tollgate::Quota;
use tollgate_proto::tollgate_v1::AcquireRequest;
use tollgate_server::policy::Policies;

use crate::support::Running;

const CLIENTS: usize = 200;
const EACH: usize = 5;
const LIMIT: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_clients_over_three_protocols_get_exactly_the_limit() {
    let policies = Policies::of_default(LIMIT, Quota::per_day(1)).unwrap();
    let server = Arc::new(Running::with(policies).await);
    let allowed = Arc::new(AtomicU64::new(0));
    let (http, grpc) = (reqwest::Client::new(), server.grpc().await);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (server, allowed) = (Arc::clone(&server), Arc::clone(&allowed));
        let (http, mut grpc) = (http.clone(), grpc.clone());
        clients.spawn(async move {
            let mut resp = server.resp().await;
            for turn in 0..EACH {
                let passed = match (client + turn) % 3 {
                    0 => {
                        let post = http.post(server.url("/v1/acquire")).body(r#"{"key":"hot"}"#);
                        let text = post.send().await.unwrap().text().await.unwrap();
                        text.contains("\"allowed\":true")
                    }
                    1 => {
                        let request =
                            AcquireRequest { key: "hot".to_owned(), ..AcquireRequest::default() };
                        grpc.acquire(request).await.unwrap().into_inner().allowed
                    }
                    _ => resp.five(&["TG.ACQUIRE", "default", "hot"]).await[0] == 1,
                };
                allowed.fetch_add(u64::from(passed), Relaxed);
            }
        });
    }
    clients.join_all().await;
    assert_eq!(allowed.load(Relaxed), LIMIT);
}

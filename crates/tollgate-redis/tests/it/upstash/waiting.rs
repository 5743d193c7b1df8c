//! More requests than there are connections: a request that waits for one while others are answered
//! has met contention, not an outage.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::task::Poll;
use std::time::Duration;

use tollgate_core::{
    Admission, BoxFuture, Code, Decision, Error, Limit, Limiter, ManualClock, OutageMode, Quota,
    algorithm as a,
};
use tollgate_test_servers::shared;

use super::{shim, store, upstash};

/// Requests that are under way at once.
const CONNECTIONS: usize = 64;

/// A proxy of a server: the first connection gets one response, and no other gets any.
fn answering_once(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut server = TcpStream::connect(server).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let mut response = [0; 4_096];
            let count = server.read(&mut response).unwrap();
            client.write_all(&response[..count]).unwrap();
            // The rest goes nowhere; the connection stays open.
            std::io::copy(&mut server, &mut std::io::sink())
        });
        let mut others = Vec::new();
        while let Ok((other, _)) = listener.accept() {
            others.push(other);
        }
    });
    addr
}

fn limit(policy: &str) -> Limit {
    let day = Duration::from_secs(86_400);
    let limit = Limit::new(policy, a::Gcra::new(Quota::new(1_000, day)).unwrap()).unwrap();
    limit.with_prefix("upstash-waiting").unwrap().on_outage(OutageMode::Open)
}

type Answer = Result<Decision, Error>;

/// Polls the calls in order until one more of them has its answer.
async fn one_more(calls: &mut [(BoxFuture<'_, Answer>, Option<Answer>)]) {
    poll_fn(|context| {
        for (call, answer) in calls.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(said) = call.as_mut().poll(context) {
                *answer = Some(said);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn a_request_that_waits_for_a_connection_while_others_are_answered_is_not_admitted() {
    let redis = shared::redis();
    let shim = shim(redis);
    let limits = ["one", "two"].map(limit);
    let charges = [limits[0].charge("k"), limits[1].charge("k")];
    let admission = Admission::of(&charges);
    // So that the server knows the script.
    let known = Limiter::with_clock(store(upstash(&shim.url())), ManualClock::at(0)).build();
    known.check(&admission).await.unwrap();
    let clock = ManualClock::at(0);
    let url = format!("http://{}", answering_once(shim.addr()));
    let limiter = Limiter::with_clock(store(upstash(&url)), clock.clone()).build();
    // One gets an answer. Two wait for a connection until their deadline.
    let mut calls: Vec<(BoxFuture<'_, Answer>, Option<Answer>)> = (0..CONNECTIONS + 2)
        .map(|_| (Box::pin(limiter.check(&admission)) as BoxFuture<'_, Answer>, None))
        .collect();
    one_more(&mut calls).await;
    clock.advance(Duration::from_secs(60));
    while calls.iter().any(|(_, answer)| answer.is_none()) {
        one_more(&mut calls).await;
    }
    let (mut decided, mut let_in, mut refused) = (0, 0, 0);
    for answer in calls.into_iter().filter_map(|(_, answer)| answer) {
        match answer {
            Ok(decision) if decision.degraded.is_none() => decided += 1,
            Ok(_) => let_in += 1,
            Err(error) => {
                assert_eq!(error.code(), Code::QueueFull, "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!((decided, let_in, refused), (1, CONNECTIONS - 1, 2));
}

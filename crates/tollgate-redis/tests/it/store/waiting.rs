//! Calls that wait behind others on their connection: whoever sees others being answered has not met
//! silence, and is not let in.

use std::future::{Future, poll_fn};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tollgate_core::{
    Admission, Code, Decision, Error, Limit, Limiter, ManualClock, OutageMode, Quota,
    algorithm as a,
};
use tollgate_test_servers::shared;

use super::{on_one_thread, store};

/// Stands in front of a server for one connection, and hands on so many lists. After that the client
/// hears nothing more.
struct Relay {
    addr: SocketAddr,
    lists: Arc<AtomicI64>,
}

impl Relay {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let lists = Arc::new(AtomicI64::new(i64::MAX));
        let left = Arc::clone(&lists);
        std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            hand_on(server, client, &left);
        });
        Self { addr, lists }
    }
}

/// Until the server closes the connection.
fn hand_on(mut server: TcpStream, mut client: TcpStream, left: &AtomicI64) {
    let mut bytes = [0; 4_096];
    let mut is_over = false;
    while let Ok(count @ 1..) = server.read(&mut bytes) {
        let begins = |byte: &u8| *byte == b'*' && left.fetch_sub(1, Ordering::SeqCst) <= 0;
        let end = bytes[..count].iter().position(begins);
        if !is_over && client.write_all(&bytes[..end.unwrap_or(count)]).is_err() {
            return;
        }
        is_over |= end.is_some();
    }
}

fn limit(policy: &str) -> Limit {
    let day = Duration::from_secs(86_400);
    let limit = Limit::new(policy, a::Gcra::new(Quota::new(1_000, day)).unwrap()).unwrap();
    limit.with_prefix("waiting").unwrap().on_outage(OutageMode::Open)
}

/// What a call says whose time is up, behind one that is answered or is not.
fn behind_one_that_is_answered(is_answered: bool) -> Result<Decision, Error> {
    let relay = Relay::to(shared::redis().addr());
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    let store = store(&format!("redis://{}?{timeouts}", relay.addr));
    let clock = ManualClock::at(0);
    let limiter = Limiter::with_clock(store, clock.clone()).build();
    let limits = ["one", "two"].map(limit);
    let charges = |subject| [limits[0].charge(subject), limits[1].charge(subject)];
    let [warm, first, second] = ["warm", "first", "second"].map(charges);
    on_one_thread(async {
        // A connection that knows the script.
        limiter.check(&warm).await.unwrap();
        relay.lists.store(i64::from(is_answered), Ordering::SeqCst);
        let (first, second) = (Admission::of(&first), Admission::of(&second));
        let mut first = pin!(limiter.check(&first));
        let mut second = pin!(limiter.check(&second));
        poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending());
            assert!(second.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        if is_answered {
            assert_eq!(first.await.unwrap().degraded, None);
        }
        clock.advance(Duration::from_secs(60));
        second.await
    })
}

#[test]
fn whoever_waits_behind_others_who_are_answered_is_not_let_in() {
    let error = behind_one_that_is_answered(true).unwrap_err();
    assert_eq!(error.code(), Code::QueueFull, "{error}");
    assert!(!error.is_not_sent(), "it may be charged");
}

#[test]
fn whoever_waits_for_a_silent_server_meets_an_outage() {
    let decision = behind_one_that_is_answered(false).unwrap();
    assert_eq!(decision.degraded, Some(OutageMode::Open));
}

/// Its calls stand behind one that is answered, and are not.
#[test]
fn a_batch_that_waits_behind_others_who_are_answered_is_not_let_in() {
    let relay = Relay::to(shared::redis().addr());
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=60000";
    let store = store(&format!("redis://{}?{timeouts}", relay.addr));
    let clock = ManualClock::at(0);
    let limiter = Limiter::with_clock(store, clock.clone()).build();
    let window = a::FixedWindow::new(Quota::per_day(1_000), a::Anchor::Epoch).unwrap();
    let window = Limit::new("window", window).unwrap().with_prefix("waiting").unwrap();
    let limits = [limit("batch"), window.on_outage(OutageMode::Open)];
    // Two algorithms are two calls. Their scripts are known.
    let charges = [limits[0].charge("a"), limits[1].charge("a")];
    let first = [limits[0].charge("b"), limits[0].charge("c")];
    on_one_thread(async {
        for before in [&charges, &first] {
            for decision in limiter.check_batch(before).await {
                assert_eq!(decision.unwrap().degraded, None);
            }
        }
        relay.lists.store(1, Ordering::SeqCst);
        let mut first = pin!(limiter.check_batch(&first));
        let mut second = pin!(limiter.check_batch(&charges));
        poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending());
            assert!(second.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert!(first.await.into_iter().all(|decision| decision.unwrap().degraded.is_none()));
        clock.advance(Duration::from_secs(60));
        for answer in second.await {
            assert_eq!(answer.unwrap_err().code(), Code::QueueFull);
        }
    });
}

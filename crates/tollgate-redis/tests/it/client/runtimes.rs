//! Runtimes that end while callers on others still wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};
use tollgate_core::Code;
use tollgate_redis::client::Client;
use tollgate_redis::transport::{Reply, Transport};
use tollgate_test_servers::{FaultProxy, Mode, Redis, RedisCluster};

use super::{SOON, count, open, soon, text};

/// Does nothing unless it is told to.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The connection belongs to one runtime, and a caller outside of it waits for a reply.
#[test]
fn a_caller_is_woken_when_the_runtime_of_the_connection_ends() {
    let redis = Redis::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let client = open(&format!("redis://{}", proxy.addr()));
    let owner = runtime();
    assert_eq!(owner.block_on(client.send(&count("ends", "x"))).unwrap(), text("x"));
    proxy.set(Mode::DropReplies).unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Arc::clone(&woken).into();
    let mut cx = Context::from_waker(&waker);
    let call = count("ends", "x");
    let mut call = pin!(client.send(&call));
    assert!(call.as_mut().poll(&mut cx).is_pending());
    owner.block_on(async {
        let from = Instant::now();
        while proxy.traffic().lost_to_client_bytes == 0 {
            assert!(from.elapsed() < SOON, "the call was not written");
            tokio::task::yield_now().await;
        }
    });
    assert!(!woken.0.load(Ordering::SeqCst));
    drop(owner);
    assert!(woken.0.load(Ordering::SeqCst), "the caller waits for ever");
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut cx) else {
        panic!("the call is not over");
    };
    assert!(error.is_outage() && !error.is_not_sent(), "{error}");
}

fn client_of(cluster: &RedisCluster) -> Client {
    let addr = cluster.nodes()[0].addr();
    open(&format!("redis-cluster://{addr}?connect_timeout_ms=10000&reply_timeout_ms=10000"))
}

/// The map is not known yet when the runtime ends on which a task tried to learn it.
#[test]
fn a_cluster_that_never_was_is_found_by_another_runtime() {
    let cluster = RedisCluster::start(1).unwrap();
    let client = client_of(&cluster);
    cluster.nodes()[0].kill().unwrap();
    let first = runtime();
    let error = first.block_on(soon(&client, &count("a", "x"))).unwrap_err();
    assert!(error.is_outage() && error.is_not_sent(), "{error}");
    drop(first);
    cluster.nodes()[0].restart().unwrap();
    runtime().block_on(async {
        let deadline = Instant::now() + SOON;
        while let Err(error) = soon(&client, &count("a", "x")).await.and_then(Reply::ok) {
            assert!(error.is_not_sent() && Instant::now() < deadline, "{error}");
            tokio::task::yield_now().await;
        }
    });
}

/// It learns the map of a cluster, and callers of another runtime wait for it.
#[test]
fn a_call_that_waits_learns_the_map_when_the_runtime_of_another_call_ends() {
    let cluster = RedisCluster::start(1).unwrap();
    let client = client_of(&cluster);
    let call = count("a", "x");
    let poll = |runtime: &Runtime, call: &mut (dyn Future<Output = _> + Unpin)| {
        let _in_runtime = runtime.enter();
        pin!(call).poll(&mut Context::from_waker(Waker::noop())).map(drop)
    };
    let [learns, waits] = [runtime(), runtime()];
    let mut first = Box::pin(client.send(&call));
    assert!(poll(&learns, &mut first).is_pending());
    let mut second = Box::pin(client.send(&call));
    assert!(poll(&waits, &mut second).is_pending());
    drop(learns);
    let reply = waits.block_on(async { timeout(SOON, second).await.expect("a call hangs") });
    assert_eq!(reply.unwrap(), text("x"));
}

#[test]
fn a_cluster_without_a_runtime_is_an_error() {
    let cluster = RedisCluster::start(1).unwrap();
    let client = client_of(&cluster);
    let error = tollgate_testkit::runtime::block_on(client.send(&count("a", "x"))).unwrap_err();
    assert_eq!(error.code(), Code::Unsupported);
    assert!(error.is_not_sent() && error.to_string().contains("tokio runtime"), "{error}");
}

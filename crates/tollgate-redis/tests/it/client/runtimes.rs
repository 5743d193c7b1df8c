//! Runtimes that end while callers on others still wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

use tokio::runtime::{Builder, Runtime};
use tollgate_redis::transport::Transport;
use tollgate_testkit::servers::{FaultProxy, Mode, Redis};

use super::{SOON, count, open, text};

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

/// The connection belongs to one runtime, and a caller outside of it drives it.
#[test]
fn a_caller_who_drives_is_told_when_the_runtime_of_the_connection_ends() {
    let redis = Redis::start().unwrap();
    let proxy = FaultProxy::to(redis.addr()).unwrap();
    let client = open(&format!("redis://{}", proxy.addr()));
    let owner = runtime();
    for _ in 0..40 {
        assert_eq!(owner.block_on(client.send(&count("driven", "x"))).unwrap(), text("x"));
    }
    proxy.set(Mode::DropReplies).unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Arc::clone(&woken).into();
    let mut cx = Context::from_waker(&waker);
    let call = count("driven", "x");
    let mut call = pin!(client.send(&call));
    assert!(call.as_mut().poll(&mut cx).is_pending());
    // The runtime stands still, so it was this caller who has written.
    proxy.wait_until(SOON, |traffic| traffic.lost_to_client_bytes > 0).unwrap();
    assert!(!woken.0.load(Ordering::SeqCst));
    drop(owner);
    assert!(woken.0.load(Ordering::SeqCst), "nobody tells the caller to look again");
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut cx) else {
        panic!("the caller waits for nobody");
    };
    assert!(error.is_outage() && !error.is_unsent(), "{error}");
}

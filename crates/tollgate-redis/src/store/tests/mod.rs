//! Scripts and Rust side by side, on a real server.

mod conformance;
mod cross_slot;
mod deadlines;
mod differential;
mod drops;
mod large_rounds;
mod lost;
mod silence;

use std::sync::{Mutex, PoisonError};

use tollgate_core::algorithm::Gcra;
use tollgate_core::store::{CallContext, Store as _};
use tollgate_core::{Admission, Limit, Quota, Result};
use tollgate_test_servers::{Redis as Server, resp, shared};

use super::Redis;
use crate::transport::{Call, Reply, Transport};

/// Calls sent before their replies are read: few enough for the buffers of a socket.
const WINDOW: usize = 64;

/// A transport over one blocking connection.
pub(super) struct Plain(Mutex<resp::Client>);

impl Plain {
    pub(super) fn connect() -> Self {
        Self::to(shared::redis())
    }

    pub(super) fn to(server: &Server) -> Self {
        Self(Mutex::new(server.client().unwrap()))
    }
}

impl Transport for Plain {
    async fn send(&self, call: &Call) -> Result<Reply> {
        let mut client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<&[u8]> = call.words().collect();
        Ok(reply_of(client.call(&words).unwrap()))
    }

    async fn send_all(&self, calls: &[Call], mut replied: impl FnMut(usize, Result<Reply>) + Send) {
        let mut client = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut indices = 0..;
        for window in calls.chunks(WINDOW) {
            for call in window {
                let words: Vec<&[u8]> = call.words().collect();
                client.send(&words).unwrap();
            }
            for index in indices.by_ref().take(window.len()) {
                replied(index, Ok(reply_of(client.read().unwrap())));
            }
        }
    }
}

fn reply_of(reply: resp::Reply) -> Reply {
    match reply {
        resp::Reply::Status(text) => Reply::Text(text.into_bytes()),
        resp::Reply::Error(text) => Reply::Error(text),
        resp::Reply::Integer(number) => Reply::Integer(number),
        resp::Reply::Bulk(bytes) => Reply::Text(bytes),
        resp::Reply::Array(replies) => Reply::List(replies.into_iter().map(reply_of).collect()),
        _ => Reply::Nil,
    }
}

/// It is moved around for every check.
#[test]
fn the_future_of_an_admission_stays_small() {
    let store = Redis::over(Plain::connect());
    let limit = Limit::new("size", Gcra::new(Quota::per_second(1)).unwrap()).unwrap();
    let charges = [limit.charge("subject")];
    let admission = Admission::of(&charges);
    let size = size_of_val(&store.admit(&admission, CallContext::store_clock()));
    assert!(size <= 1_024, "{size} bytes");
}

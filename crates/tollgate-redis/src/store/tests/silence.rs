//! Transports of other people, and servers that answer a part of a batch only.

use core::future::{Future as _, pending};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use tollgate_core::store::{CallContext, Store as _};
use tollgate_core::{
    Charge, Limit, Limiter, ManualClock, OutageMode, Quota, Result, Verdict, algorithm as a,
};
use tollgate_testkit::runtime::block_on;

use super::Plain;
use crate::Redis;
use crate::transport::{Call, Reply, Sharing, Transport};

fn limit(prefix: &str, policy: &str) -> Limit {
    let gcra = a::Gcra::new(Quota::new(1, Duration::from_secs(86_400))).unwrap();
    let limit = Limit::new(policy, gcra).unwrap().with_prefix(prefix).unwrap();
    limit.on_outage(OutageMode::Open)
}

/// Spends all of the first charge, and checks all of them until the deadline expires.
fn answers_of(transport: impl Transport, charges: &[Charge<'_>]) -> Vec<&'static str> {
    let known = Redis::over(Plain::connect());
    block_on(known.reset(charges[0].key(), CallContext::store_clock())).unwrap();
    // Two, so that it is the script of a batch.
    let spent = block_on(Limiter::builder(known).build().check_batch(&[charges[0]; 2]));
    assert_eq!(spent[0].as_ref().unwrap().verdict, Verdict::Allowed);
    let clock = ManualClock::at(0);
    let limiter = Limiter::with_clock(Redis::over(transport), clock.clone()).build();
    let mut batch = pin!(limiter.check_batch(charges));
    let mut context = Context::from_waker(Waker::noop());
    assert!(batch.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_secs(60));
    let Poll::Ready(answers) = batch.as_mut().poll(&mut context) else {
        panic!("it goes on when no time is left");
    };
    let codes = answers.into_iter().map(|answer| match answer {
        Ok(decision) => decision.degraded.map_or(decision.verdict.as_str(), OutageMode::as_str),
        Err(error) => error.code().as_str(),
    });
    codes.collect()
}

/// Has one call under way at a time, and gets no reply for some keys.
struct OneByOne(Plain);

impl Transport for OneByOne {
    fn sharing(&self) -> Sharing {
        Sharing::SameSlot
    }

    async fn send(&self, call: &Call) -> Result<Reply> {
        match call.keys().iter().any(|key| key.contains("silent")) {
            true => pending().await,
            false => self.0.send(call).await,
        }
    }
}

#[test]
fn what_was_answered_before_the_silence_is_not_lost() {
    let limit = limit("one-by-one", "silence");
    let charges = [limit.charge("spent"), limit.charge("silent"), limit.charge("after")];
    // Both were handed to the transport, so both may be charged.
    let expected = ["denied", "open", "open"];
    assert_eq!(answers_of(OneByOne(Plain::connect()), &charges), expected);
}

/// Gets TRYAGAIN for several keys, and no reply when they are sent one by one.
struct Halfway(Plain);

impl Transport for Halfway {
    fn sharing(&self) -> Sharing {
        Sharing::SameSlot
    }

    async fn send(&self, _: &Call) -> Result<Reply> {
        pending().await
    }

    async fn send_all(&self, calls: &[Call], mut replied: impl FnMut(usize, Result<Reply>) + Send) {
        if calls.iter().all(|call| call.keys().len() == 1) {
            return pending().await;
        }
        let refuse = |index: usize, reply| match calls[index].keys().len() {
            1 => replied(index, reply),
            _ => replied(index, Ok(Reply::Error("TRYAGAIN Multiple keys request".to_owned()))),
        };
        self.0.send_all(calls, refuse).await;
    }
}

#[test]
fn what_was_answered_before_keys_are_sent_one_by_one_is_not_lost() {
    let [one, two] = ["one", "two"].map(|policy| limit("halfway", policy));
    let charges = [one.charge("spent"), one.charge("a"), two.charge("a")];
    assert_eq!(answers_of(Halfway(Plain::connect()), &charges), ["denied", "open", "open"]);
}

//! Limits in Workers KV: **approximate**.
//!
//! KV has no conditional write. Two Workers that read the same state both admit, and the last
//! write wins. Other places read a write up to a minute later, or even later than that. A key
//! accepts one write per second. So more is admitted than the quota, without a bound that could be
//! stated.
//!
//! It suits coarse limits that only keep honest clients in bounds: a few requests per minute or
//! hour for each subject, from one place, where Durable Objects are not available. It does not
//! suit anything that must not be exceeded, nor subjects with several requests per second: those
//! get `conflict_exhausted` when KV refuses a write. Several limits are written one by one: if KV
//! writes some and refuses others, that is `store_unavailable`, whose outcome is unknown.

use core::time::Duration;
use std::borrow::Cow;
use std::fmt;

use tollgate_core::store::round::{Round, RoundBounds, ValueName, state_in};
use tollgate_core::store::{
    CallContext, Capability, Evidence, Loaded, MultiKey, Store, TimeSource,
};
use tollgate_core::{Admission, Charge, Code, Error, Key, Micros, Now, Result};
use worker::KvStore;
use worker::kv::KvError;
use worker::send::IntoSendFuture as _;

use crate::error::unavailable;
use crate::join::join_all;
use crate::name;

/// KV keeps nothing for a shorter time.
const TTL_MIN_S: u64 = 60;
const MICROS_PER_S: u64 = 1_000_000;
const DEFAULT_SLACK: Micros = 60 * MICROS_PER_S;
/// The longest name that KV accepts.
const NAME_MAX_BYTES: usize = 512;
/// The calls, as messages of KV name them.
const CALLS: [&str; 3] = ["GET", "PUT", "DELETE"];

/// A store in Workers KV: approximate.
///
/// Several limits of one request are decided together and written one by one. Request ids are
/// `unsupported`: without a conditional write they could not be charged once.
#[derive(Clone)]
pub struct WorkersKv {
    namespace: KvStore,
    slack: Micros,
}

impl WorkersKv {
    /// A store in a namespace.
    #[must_use]
    pub const fn new(namespace: KvStore) -> Self {
        Self { namespace, slack: DEFAULT_SLACK }
    }

    /// How long a value is kept after it means the same as none, 60 s by default.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Self {
        self.slack = Micros::try_from(slack.as_micros()).unwrap_or(DEFAULT_SLACK);
        self
    }

    async fn read(&self, names: &[&str]) -> Result<Vec<Option<String>>> {
        let reads = names.iter().map(|name| self.namespace.get(&stored(name)).text());
        join_all(reads.collect()).await.into_iter().map(|read| read.map_err(failed)).collect()
    }

    async fn write(&self, name: &str, value: &str, ttl_s: u64) -> Result<()> {
        let put = self.namespace.put(&stored(name), value).map_err(failed)?;
        put.expiration_ttl(ttl_s).execute().await.map_err(failed)
    }

    async fn decide(&self, admission: &Admission<'_>, now: Micros) -> Result<Evidence> {
        let round = Round::of([(*admission, TimeSource::Given(now))]);
        let names: Vec<ValueName<'_>> = round.names().collect();
        let texts: Vec<&str> = names.iter().map(|name| name.text).collect();
        let values = self.read(&texts).await?;
        let bounds = RoundBounds { slack: self.slack, room: 0 };
        let decided = round.decide(values, None, bounds)?;
        let writes = decided.writes.iter().filter_map(|write| {
            let ttl_s = write.keep_until.saturating_sub(now).div_ceil(MICROS_PER_S);
            let name = texts.get(write.place)?;
            Some(self.write(name, &write.text, ttl_s.max(TTL_MIN_S)))
        });
        all_written(join_all(writes.collect()).await)?;
        decided.outcomes.into_iter().next().unwrap_or_else(|| Err(no_charge()))
    }
}

impl Store for WorkersKv {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = false;
        capability.durable = true;
        // Decided together and written one by one; nothing about this store is exact.
        capability.multi_key = MultiKey::Compensated;
        capability
    }

    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let now = reading_of(cx.time())?;
        if admission.charges().is_empty() {
            return Err(no_charge().not_sent());
        }
        if admission.request_id.is_some() {
            let message = "Workers KV cannot charge a request id exactly once";
            return Err(Error::new(Code::Unsupported, message).with_field("request_id").not_sent());
        }
        cx.sent();
        self.decide(admission, now).into_send().await
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let now = reading_of(cx.time())?;
        let names: Vec<String> = charges.iter().map(|charge| charge.key().to_text()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let values = self.read(&names).into_send().await?;
        let states = values.into_iter().map(|value| value.map_or(Ok(None), |text| state_in(&text)));
        Ok(Loaded::new(Now::at(now), states.collect::<Result<_>>()?))
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        let name = key.to_text();
        self.namespace.delete(&stored(&name)).into_send().await.map_err(failed)
    }
}

impl fmt::Debug for WorkersKv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkersKv").field("slack", &self.slack).finish_non_exhaustive()
    }
}

fn stored(name: &str) -> Cow<'_, str> {
    name::stored(name, NAME_MAX_BYTES)
}

fn reading_of(time: TimeSource) -> Result<Micros> {
    match time {
        TimeSource::Given(reading) => Ok(reading),
        TimeSource::StoreClock => {
            let message = "this store has no clock of its own; pass a reading";
            Err(Error::new(Code::Unsupported, message).not_sent())
        }
    }
}

fn no_charge() -> Error {
    Error::invalid("charges", "is empty; accepted: at least one charge")
}

#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn failed(error: KvError) -> Error {
    let text = error.to_string();
    if is_refused(&text) {
        let message = "Workers KV accepts one write per second and key; it has refused one";
        return Error::new(Code::ConflictExhausted, message);
    }
    unavailable("Workers KV failed", &worker::Error::from(text))
}

/// Whether KV has refused a call as one of too many. It is contention, which never fails open.
fn is_refused(message: &str) -> bool {
    CALLS.iter().any(|call| message.contains(&format!("KV {call} failed: 429")))
}

/// The result of the writes of an admission. Only if each was refused, nothing was charged: after
/// any other failure, and where some were written, the outcome is unknown.
fn all_written(writes: Vec<Result<()>>) -> Result<()> {
    let count = writes.len();
    let errors: Vec<Error> = writes.into_iter().filter_map(Result::err).collect();
    let is_partial = errors.len() < count;
    let (refused, unknown): (Vec<Error>, Vec<Error>) =
        errors.into_iter().partition(|error| error.code() != Code::StoreUnavailable);
    match (unknown.into_iter().next(), refused.into_iter().next()) {
        (Some(error), _) => Err(error),
        (None, Some(_)) if is_partial => {
            let message = "Workers KV has written some of the limits and refused others";
            Err(Error::new(Code::StoreUnavailable, message))
        }
        (None, Some(error)) => Err(error),
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::{Code, Error, Result};

    use super::{all_written, is_refused};

    #[test]
    fn only_a_refusal_is_contention() {
        for call in ["GET", "PUT", "DELETE"] {
            let message =
                format!("js error: JsValue(Error: KV {call} failed: 429 Too Many Requests");
            assert!(is_refused(&message), "{message}");
        }
        for message in ["Error: KV PUT failed: 500 after 429 ms", "the key 429", "429"] {
            assert!(!is_refused(message), "{message}");
        }
    }

    #[test]
    fn nothing_was_charged_only_if_every_write_was_refused() {
        let refused = || Err(Error::new(Code::ConflictExhausted, "refused"));
        let full = || Err(Error::new(Code::StoreFull, "full"));
        let unknown = || Err(Error::new(Code::StoreUnavailable, "unknown"));
        let code = |writes: Vec<Result<()>>| all_written(writes).err().map(|error| error.code());
        assert_eq!(code(vec![]), None);
        assert_eq!(code(vec![Ok(()), Ok(())]), None);
        assert_eq!(code(vec![refused(), refused()]), Some(Code::ConflictExhausted));
        assert_eq!(code(vec![full(), full()]), Some(Code::StoreFull));
        for writes in [
            vec![Ok(()), refused()],
            vec![Ok(()), full()],
            vec![unknown(), full()],
            vec![refused(), Ok(())],
            vec![refused(), unknown()],
            vec![unknown(), Ok(())],
        ] {
            assert_eq!(code(writes), Some(Code::StoreUnavailable));
        }
    }
}

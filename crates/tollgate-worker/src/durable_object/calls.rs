//! Calls to objects: a message out, its answer back.

use tollgate_core::store::{CallContext, Evidence, Loaded, TimeSource};
use tollgate_core::{Charge, Error, Micros, Now, Result};
use worker::send::IntoSendFuture as _;
use worker::{Method, ObjectNamespace, Request, RequestInit};

use super::shard::{object_name, shard_of};
use super::store::{reading_of, states_of};
use super::wire::{Call, Outcome, Reply, SentAdmission, SentSwap, from_text, to_text};
use crate::error::{call_failed, corrupt, unavailable};
use crate::join::join_all;

/// Objects are called by their binding: the host is not used.
const URL: &str = "https://tollgate.internal/";
const NO_ANSWER: &str = "the Durable Object did not answer";

/// The objects of a namespace.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    pub(super) namespace: ObjectNamespace,
    pub(super) shards: u32,
}

impl Calls {
    pub(super) fn shard(&self, name: &str) -> u32 {
        shard_of(name, self.shards)
    }

    /// Decides admissions in one object.
    pub(super) async fn admit(
        &self,
        shard: u32,
        admissions: Vec<SentAdmission>,
        time: TimeSource,
    ) -> Result<Vec<Result<Evidence>>> {
        let at = match time {
            TimeSource::Given(at) => Some(at),
            TimeSource::StoreClock => None,
        };
        match self.call(shard, &Call::Admit { at, admissions }).await? {
            Reply::Admitted(outcomes) => {
                Ok(outcomes.into_iter().map(Outcome::into_evidence).collect())
            }
            other => Err(unexpected(other)),
        }
    }

    /// The values of names in any objects, and the clock of one of them.
    pub(super) async fn read(&self, names: &[&str]) -> Result<(Micros, Vec<Option<String>>)> {
        let mut by_object: Vec<(u32, Vec<usize>)> = Vec::new();
        for (place, name) in names.iter().enumerate() {
            let shard = self.shard(name);
            match by_object.iter_mut().find(|(known, _)| *known == shard) {
                Some((_, places)) => places.push(place),
                None => by_object.push((shard, vec![place])),
            }
        }
        let calls = by_object.iter().map(|(shard, places)| {
            let names = places.iter().filter_map(|place| names.get(*place));
            self.read_in(*shard, names.map(|name| (*name).to_owned()).collect())
        });
        let replies = join_all(calls.collect()).await;
        let (mut all, mut latest) = (vec![None; names.len()], 0);
        for ((_, places), reply) in by_object.into_iter().zip(replies) {
            let (clock, values) = reply?;
            latest = clock.max(latest);
            for (place, value) in places.into_iter().zip(values) {
                if let Some(known) = all.get_mut(place) {
                    *known = value;
                }
            }
        }
        Ok((latest, all))
    }

    async fn read_in(
        &self,
        shard: u32,
        names: Vec<String>,
    ) -> Result<(Micros, Vec<Option<String>>)> {
        let count = names.len();
        match self.call(shard, &Call::Read { names }).await? {
            Reply::Values { clock, values } if values.len() == count => Ok((clock, values)),
            other => Err(unexpected(other)),
        }
    }

    pub(super) async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let names: Vec<String> = charges.iter().map(|charge| charge.key().to_text()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (clock, values) = self.read(&names).await?;
        Ok(Loaded::new(Now::at(reading_of(cx.time(), clock)), states_of(values)?))
    }

    /// Writes values of one object if each is still as expected.
    pub(super) async fn swap(&self, shard: u32, writes: Vec<SentSwap>) -> Result<bool> {
        match self.call(shard, &Call::Swap { writes }).await? {
            Reply::Swapped(is_done) => Ok(is_done),
            other => Err(unexpected(other)),
        }
    }

    pub(super) async fn reset(&self, name: String) -> Result<()> {
        match self.call(self.shard(&name), &Call::Reset { name }).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    async fn call(&self, shard: u32, call: &Call) -> Result<Reply> {
        let text = to_text(call)?;
        let answer = self.post(shard, &text).into_send().await?;
        match from_text(&answer)? {
            Reply::Failed(error) => Err(error.into_error()),
            reply => Ok(reply),
        }
    }

    async fn post(&self, shard: u32, text: &str) -> Result<String> {
        let prepared = || {
            let stub = self.namespace.get_by_name(&object_name(shard))?;
            let mut init = RequestInit::new();
            init.with_method(Method::Post).with_body(Some(text.into()));
            Ok((stub, Request::new_with_init(URL, &init)?))
        };
        let (stub, request) =
            prepared().map_err(|error| unavailable(NO_ANSWER, &error).not_sent())?;
        let fetched = stub.fetch_with_request(request).await;
        let mut response = fetched.map_err(|error| call_failed(NO_ANSWER, &error))?;
        // The object has begun to answer: it may have decided.
        response.text().await.map_err(|error| unavailable(NO_ANSWER, &error))
    }
}

fn unexpected(reply: Reply) -> Error {
    drop(reply);
    corrupt("the answer of a Durable Object")
}

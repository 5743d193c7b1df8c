//! Writes decisions as JSON, from the response of the engine: by far the most frequent answer. A
//! general encoder looks at every byte of every name of a field for what has to be escaped, which
//! costs more than the decision.

use tollgate_core::{Cost, Decision};

use crate::engine::CheckResponse;
use crate::policy::LimitName;

/// An object under construction; the names of its fields need no escapes.
struct Object<'o> {
    to: &'o mut Vec<u8>,
    separator: u8,
}

/// Appends a decision.
pub(super) fn decision(response: &CheckResponse, to: &mut Vec<u8>) {
    let decision = &response.decision;
    let mut object = Object::begin(to);
    object.truth("allowed", decision.is_allowed());
    object.word("verdict", decision.verdict.as_str());
    object.standing(decision);
    object.number("delay_ms", decision.delay_ms);
    if let Some(granted) = response.granted {
        object.number("granted", granted);
    }
    object.text("policy", response.policy.as_str());
    if let Some(binding) = decision.binding() {
        object.text("binding", binding.as_str());
    }
    if let Some(mode) = decision.degraded {
        object.word("degraded", mode.as_str());
    }
    if let Some(verdict) = response.shadow_verdict() {
        object.word("shadow", verdict.as_str());
    }
    if decision.replayed {
        object.truth("replayed", true);
    }
    if let Some(receipt) = &response.receipt {
        object.text("receipt", receipt);
    }
    let to = object.name("limits");
    to.push(b'[');
    for (index, (limit, own)) in response.standings().enumerate() {
        if index > 0 {
            to.push(b',');
        }
        write_limit(limit, own, to);
    }
    to.push(b']');
    object.end();
}

/// How one limit stands.
fn write_limit(limit: &LimitName, own: &Decision, to: &mut Vec<u8>) {
    let mut object = Object::begin(to);
    object.text("name", limit.name.as_str());
    object.text("policy", limit.policy.as_str());
    object.standing(own);
    // To a range that was allowed.
    if let Some(granted) = own.granted().map(Cost::get) {
        object.number("granted", granted);
    }
    object.end();
}

impl<'o> Object<'o> {
    fn begin(to: &'o mut Vec<u8>) -> Self {
        Self { to, separator: b'{' }
    }

    /// Begins a field.
    fn name(&mut self, name: &'static str) -> &mut Vec<u8> {
        self.to.push(std::mem::replace(&mut self.separator, b','));
        self.to.push(b'"');
        self.to.extend_from_slice(name.as_bytes());
        self.to.extend_from_slice(b"\":");
        self.to
    }

    fn truth(&mut self, name: &'static str, truth: bool) {
        self.name(name).extend_from_slice(if truth { b"true" } else { b"false" });
    }

    fn number(&mut self, name: &'static str, number: u64) {
        self.name(name).extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A text of this program, without escapes.
    fn word(&mut self, name: &'static str, word: &'static str) {
        let to = self.name(name);
        to.push(b'"');
        to.extend_from_slice(word.as_bytes());
        to.push(b'"');
    }

    fn text(&mut self, name: &'static str, text: &str) {
        // Writing a text to memory does not fail.
        let _never = serde_json::to_writer(self.name(name), text);
    }

    /// The numbers of a decision.
    fn standing(&mut self, decision: &Decision) {
        self.number("limit", decision.limit);
        self.number("remaining", decision.remaining);
        self.number("reset_at_ms", decision.reset_at_ms);
        match decision.retry_after_ms {
            Some(wait_ms) => self.number("retry_after_ms", wait_ms),
            None => self.name("retry_after_ms").extend_from_slice(b"null"),
        }
    }

    fn end(self) {
        self.to.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use tollgate_core::Limiter;
    use tollgate_core::store::{BoxStore, Memory};

    use super::*;
    use crate::engine::{CheckRequest, Engine, RequestedCharge};
    use crate::policies_from_yaml;

    const POLICIES: &str = "policies:
  one: {limit: 1 per 1h}
  two: {limits: [{name: s, limit: 2 per 1s}, {name: h, limit: 9 per 1h}]}
  queue: {algorithm: leaky_bucket, rate: 1 per 1h, queue: 3}
  shadow: {limit: 1 per 1h, shadow: true}
";

    #[derive(Serialize)]
    struct DecisionJson<'a> {
        allowed: bool,
        verdict: &'static str,
        limit: u64,
        remaining: u64,
        reset_at_ms: u64,
        retry_after_ms: Option<u64>,
        delay_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        granted: Option<u64>,
        policy: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        binding: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        degraded: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        shadow: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        replayed: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        receipt: Option<&'a str>,
        limits: Vec<StandingJson<'a>>,
    }

    /// How one limit stands.
    #[derive(Serialize)]
    struct StandingJson<'a> {
        name: &'a str,
        policy: &'a str,
        limit: u64,
        remaining: u64,
        reset_at_ms: u64,
        retry_after_ms: Option<u64>,
        /// Units granted, to a range that was allowed.
        #[serde(skip_serializing_if = "Option::is_none")]
        granted: Option<u64>,
    }

    impl<'a> From<(&'a LimitName, &'a Decision)> for StandingJson<'a> {
        fn from((limit, own): (&'a LimitName, &'a Decision)) -> Self {
            Self {
                name: limit.name.as_str(),
                policy: limit.policy.as_str(),
                limit: own.limit,
                remaining: own.remaining,
                reset_at_ms: own.reset_at_ms,
                retry_after_ms: own.retry_after_ms,
                granted: own.granted().map(Cost::get),
            }
        }
    }

    impl<'a> From<&'a CheckResponse> for DecisionJson<'a> {
        fn from(response: &'a CheckResponse) -> Self {
            let decision = &response.decision;
            Self {
                allowed: decision.is_allowed(),
                verdict: decision.verdict.as_str(),
                limit: decision.limit,
                remaining: decision.remaining,
                reset_at_ms: decision.reset_at_ms,
                retry_after_ms: decision.retry_after_ms,
                delay_ms: decision.delay_ms,
                granted: response.granted,
                policy: response.policy.as_str(),
                binding: decision.binding().map(|name| name.as_str()),
                degraded: decision.degraded.map(|mode| mode.as_str()),
                shadow: response.shadow_verdict().map(|verdict| verdict.as_str()),
                replayed: decision.replayed.then_some(true),
                receipt: response.receipt.as_deref(),
                limits: response.standings().map(StandingJson::from).collect(),
            }
        }
    }

    #[tokio::test]
    async fn decisions_are_written_as_a_general_encoder_does() {
        let policies = policies_from_yaml(POLICIES).unwrap();
        let engine = Engine::new(Limiter::new(BoxStore::new(Memory::new())), policies);
        let names = ["one", "one", "two", "queue", "queue", "shadow", "shadow"];
        let mut fields = std::collections::BTreeSet::new();
        for policy in names {
            for (cost, most, id) in [(1, None, None), (1, Some(7), Some("i")), (99, None, None)] {
                let charge = RequestedCharge::new(policy, "k").cost(Cost::new(cost).unwrap());
                let charge = charge.up_to(most.map(|most| Cost::new(most).unwrap()));
                let beside = RequestedCharge::new("shadow", "k");
                let listed = [charge, beside];
                let both = CheckRequest::listed(&listed);
                for request in [CheckRequest::one(charge).request_id(id).receipt(true), both] {
                    let response = engine.acquire(request).await.unwrap();
                    let mut written = Vec::new();
                    decision(&response, &mut written);
                    let general = serde_json::to_vec(&DecisionJson::from(&response)).unwrap();
                    assert_eq!(
                        written.escape_ascii().to_string(),
                        general.escape_ascii().to_string()
                    );
                    let value: serde_json::Value = serde_json::from_slice(&written).unwrap();
                    fields.extend(value.as_object().unwrap().keys().cloned());
                }
            }
        }
        // All but the one of an outage were written.
        assert_eq!(fields.len(), 14, "{fields:?}");
    }
}

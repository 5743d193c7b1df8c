//! Writes decisions as messages of `tollgate.v1`, from the response of the engine: the generated
//! types would take a copy of every name in it.

use prost::encoding::{WireType, encode_key, encode_varint};
use tollgate::{Cost, Decision};

use tollgate_service::engine::{CheckResponse, Failure};
use tollgate_service::policy::LimitName;

use super::encode;
use super::framing::put_message;

/// More than most messages have, so that memory is taken once.
const USUAL_BYTES: usize = 256;

/// The body of a response that is a `Decision`.
pub(super) fn decision(response: &CheckResponse) -> Vec<u8> {
    let mut output = Vec::with_capacity(USUAL_BYTES);
    put_message(&mut output, |message| write_decision(response, message));
    output
}

/// Appends an `Outcome` as a message of a stream.
pub(super) fn outcome(result: &Result<CheckResponse, Failure>, output: &mut Vec<u8>) {
    put_message(output, |message| match result {
        Ok(response) => put_nested(1, message, |nested| write_decision(response, nested)),
        Err(failure) => put_nested(2, message, |nested| write_error(failure, nested)),
    });
}

fn write_decision(response: &CheckResponse, to: &mut Vec<u8>) {
    let decision = &response.decision;
    put(1, decision.is_allowed().into(), to);
    put_enum(2, encode::verdict(Some(decision.verdict)).into(), to);
    put(3, decision.limit, to);
    put(4, decision.remaining, to);
    put(5, decision.reset_at_ms, to);
    put_optional(6, decision.retry_after_ms, to);
    put(7, decision.delay_ms, to);
    put_text(8, response.policy.as_str(), to);
    if let Some(binding) = decision.binding() {
        put_bytes(9, binding.as_str().as_bytes(), to);
    }
    put_enum(10, encode::degraded(decision.degraded).into(), to);
    put_enum(11, encode::verdict(response.shadow_verdict()).into(), to);
    put(12, decision.replayed.into(), to);
    if let Some(receipt) = &response.receipt {
        put_bytes(13, receipt.as_bytes(), to);
    }
    for standing in response.standings() {
        put_nested(14, to, |nested| write_standing(standing, nested));
    }
    put_optional(15, response.granted, to);
}

fn write_standing((limit, own): (&LimitName, &Decision), to: &mut Vec<u8>) {
    put_text(1, limit.name.as_str(), to);
    put_text(2, limit.policy.as_str(), to);
    put(3, own.limit, to);
    put(4, own.remaining, to);
    put(5, own.reset_at_ms, to);
    put_optional(6, own.retry_after_ms, to);
    put_optional(7, own.granted().map(Cost::get), to);
}

fn write_error(Failure { error, .. }: &Failure, to: &mut Vec<u8>) {
    put_text(1, error.code().as_str(), to);
    put_text(2, error.message(), to);
    if let Some(field) = error.field() {
        put_bytes(3, field.as_bytes(), to);
    }
}

/// A number, or nothing if it is 0.
fn put(field: u32, number: u64, to: &mut Vec<u8>) {
    put_optional(field, Some(number).filter(|number| *number > 0), to);
}

/// A number, or nothing.
fn put_optional(field: u32, number: Option<u64>, to: &mut Vec<u8>) {
    if let Some(number) = number {
        encode_key(field, WireType::Varint, to);
        encode_varint(number, to);
    }
}

fn put_enum(field: u32, number: i32, to: &mut Vec<u8>) {
    put(field, u64::try_from(number).unwrap_or_default(), to);
}

/// A text, or nothing if it is empty.
fn put_text(field: u32, text: &str, to: &mut Vec<u8>) {
    if !text.is_empty() {
        put_bytes(field, text.as_bytes(), to);
    }
}

fn put_bytes(field: u32, bytes: &[u8], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    put_length(bytes.len(), to);
    to.extend_from_slice(bytes);
}

/// A message within the message.
fn put_nested(field: u32, to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    encode_key(field, WireType::LengthDelimited, to);
    let start = to.len();
    // One byte holds the length of most.
    to.push(0);
    write(to);
    let length = to.len() - start - 1;
    match (u8::try_from(length), to.get_mut(start)) {
        (Ok(short @ ..0x80), Some(byte)) => *byte = short,
        _ => {
            let mut bytes = Vec::new();
            put_length(length, &mut bytes);
            to.splice(start..=start, bytes);
        }
    }
}

fn put_length(length: usize, to: &mut Vec<u8>) {
    encode_varint(u64::try_from(length).unwrap_or(u64::MAX), to);
}

#[cfg(test)]
mod tests {
    use hyper::body::Bytes;
    use prost::Message as _;
    use tollgate::store::{BoxStore, Memory};
    use tollgate::{Cost, Limiter};
    use tollgate_service::engine::{CheckRequest, Engine, RequestedCharge};
    use tollgate_service::policies_from_yaml;

    use super::super::framing::only_message;
    use super::*;

    const POLICIES: &str = "policies:
  one: {limit: 1 per 1h}
  two: {limits: [{name: s, limit: 2 per 1s}, {name: h, limit: 9 per 1h}]}
  queue: {algorithm: leaky_bucket, rate: 1 per 1h, queue: 3}
  shadow: {limit: 1 per 1h, shadow: true}
";

    #[tokio::test]
    async fn messages_are_those_of_the_generated_types() {
        let policies = policies_from_yaml(POLICIES).unwrap();
        let engine = Engine::new(Limiter::new(BoxStore::new(Memory::new())), policies);
        for policy in ["one", "one", "two", "queue", "queue", "shadow", "shadow", "none"] {
            for (cost, most, id) in [(1, None, None), (1, Some(7), Some("i")), (99, None, None)] {
                let charge = RequestedCharge::new(policy, "k").cost(Cost::new(cost).unwrap());
                let charge = charge.up_to(most.map(|most| Cost::new(most).unwrap()));
                let request = CheckRequest::one(charge).request_id(id).receipt(true);
                let result = engine.acquire(request).await;
                if let Ok(response) = &result {
                    let generated = encode::decision(response).encode_to_vec();
                    let written = Bytes::from(decision(response));
                    assert_eq!(only_message(&written), Some(&*generated), "{response:?}");
                }
                let mut output = Vec::new();
                outcome(&result, &mut output);
                let written = Bytes::from(output);
                let generated = encode::outcome(result).encode_to_vec();
                assert_eq!(only_message(&written), Some(&*generated));
            }
        }
    }
}

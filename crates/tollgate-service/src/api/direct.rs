//! `Acquire` as most clients send it, decided without a future: an object of `policy`, `key` and
//! `cost`, over a store that never waits.
//!
//! Any other body is left to [`super::decode`], which has the errors. So both answer the same.

use serde::{Deserialize, Deserializer};
use tollgate_core::Cost;

use super::{Api, Endpoint, Response, Route, encode, failure};
use crate::engine::{CheckRequest, RequestedCharge};
use crate::policy::DEFAULT_POLICY;

/// An ordinary body. Texts with escapes cannot be borrowed, fields that are unknown, repeated, or
/// of another type are errors: all of these are no ordinary body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordinary<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    policy: Option<&'a str>,
    key: &'a str,
    #[serde(default, deserialize_with = "present")]
    cost: Option<u64>,
}

/// A value that is there: `null` is none.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl<'a> Ordinary<'a> {
    fn read(body: &'a [u8]) -> Option<RequestedCharge<'a>> {
        // An array with the values of the fields would be read too.
        let is_object = body.trim_ascii_start().starts_with(b"{");
        let read: Self = serde_json::from_slice(body).ok().filter(|_| is_object)?;
        let cost = read.cost.map_or(Some(Cost::ONE), |units| Cost::new(units).ok())?;
        Some(RequestedCharge::new(read.policy.unwrap_or(DEFAULT_POLICY), read.key).cost(cost))
    }
}

impl Api {
    /// [`Api::answer`] without a future, for `Acquire` with an ordinary body over a store that
    /// never waits. `None` for any other request, of which nothing was charged.
    #[must_use]
    pub fn answer_now(&self, route: &Route, body: &[u8]) -> Option<Response> {
        if route.endpoint != Endpoint::Acquire {
            return None;
        }
        let request = CheckRequest::one(Ordinary::read(body)?).within(&route.rights.policies);
        let answered = self.engine.acquire_now(&request)?;
        Some(answered.map_or_else(|error| failure(&error), |response| encode::decision(&response)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::Request;
    use super::*;

    /// What a body asks for, by the strict decoder; an error is `None`.
    fn strict(body: &[u8]) -> Option<String> {
        let request = Request::of_body(body, &Request::FIELDS).ok()?;
        let listed = request.listed();
        Some(format!("{:?}", request.check(&listed)))
    }

    fn ordinary(body: &[u8]) -> Option<String> {
        Some(format!("{:?}", CheckRequest::one(Ordinary::read(body)?)))
    }

    #[test]
    fn an_ordinary_body_is_read_as_by_the_strict_decoder() {
        let bodies: [&[u8]; 9] = [
            br#"{"policy":"p","key":"k"}"#,
            br#"{"key":"k"}"#,
            b" \t\r\n{ \"key\" : \"k\" , \"cost\" : 7 } \n",
            br#"{"cost":4294967295,"key":"a b","policy":""}"#,
            br#"{"key":""}"#,
            "{\"key\":\"ключ \u{1F600}\u{7f}\",\"policy\":\"é\"}".as_bytes(),
            br#"{"cost":1,"key":"null"}"#,
            // A name may have escapes: it is compared after they are read.
            br#"{"\u006bey":"k"}"#,
            br#"{"key":"k","policy":"p","cost":2}"#,
        ];
        for body in bodies {
            let (read, text) = (ordinary(body), String::from_utf8_lossy(body));
            assert!(read.is_some() && read == strict(body), "{text}: {read:?}");
        }
    }

    #[test]
    fn what_is_not_ordinary_is_left_to_the_strict_decoder() {
        let bodies: [&[u8]; 44] = [
            b"",
            b" ",
            b"{",
            b"{}",
            b"null",
            b"7",
            br#""key""#,
            br#"["p","k",1]"#,
            br#"[{"key":"k"}]"#,
            br#"{"key":"k"}}"#,
            br#"{"key":"k"} {}"#,
            br#"{"key":"k",}"#,
            br#"{"key":"k" "cost":1}"#,
            br#"{'key':'k'}"#,
            b"\xef\xbb\xbf{\"key\":\"k\"}",
            b"{\"key\":\"\xff\"}",
            b"{\"key\":\"a\nb\"}",
            b"{\"key\":\"a\0b\"}",
            br#"{"key":"a\"b"}"#,
            br#"{"key":"\u0061"}"#,
            br#"{"key":"\ud800"}"#,
            br#"{"key":null}"#,
            br#"{"key":7}"#,
            br#"{"key":["k"]}"#,
            br#"{"key":"k","policy":null}"#,
            br#"{"key":"k","cost":null}"#,
            br#"{"key":"k","key":"k"}"#,
            br#"{"key":"k","\u006bey":"k"}"#,
            br#"{"key":"k","cost":1,"cost":1}"#,
            br#"{"key":"k","Cost":1}"#,
            br#"{"key":"k","costs":1}"#,
            br#"{"key":"k","":1}"#,
            br#"{"key":"k","cost":0}"#,
            br#"{"key":"k","cost":-1}"#,
            br#"{"key":"k","cost":-0}"#,
            br#"{"key":"k","cost":2.0}"#,
            br#"{"key":"k","cost":1e2}"#,
            br#"{"key":"k","cost":"1"}"#,
            br#"{"key":"k","cost":4294967296}"#,
            br#"{"key":"k","cost":18446744073709551616}"#,
            br#"{"key":"k","cost":{"min":1,"max":3}}"#,
            br#"{"key":"k","receipt":false}"#,
            br#"{"key":"k","request_id":"i"}"#,
            br#"{"charges":[{"key":"k"}]}"#,
        ];
        for body in bodies {
            assert_eq!(ordinary(body), None, "{}", String::from_utf8_lossy(body));
        }
        // Some of them are right all the same.
        let accepted = bodies.iter().filter(|body| strict(body).is_some()).count();
        assert_eq!(accepted, 8);
    }
}

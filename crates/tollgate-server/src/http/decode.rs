//! From JSON and query strings to what the engine is asked. Strict: every field is known, appears
//! once and has its type; an error names the field and what is accepted.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use tollgate::{Code, Cost, Error, Result};

use crate::engine::{Ask, BATCH_MAX, Target, accept_batch};
use crate::policy::{DEFAULT_POLICY, nearest};

/// A value as far as this interface knows values.
#[derive(Debug)]
enum Value {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Text(String),
    Whole(u64),
    /// Anything else, by what people call it.
    Other(&'static str),
}

impl Value {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Object(_) => "an object",
            Self::Array(_) => "an array",
            Self::Text(_) => "a string",
            Self::Whole(_) => "a number",
            Self::Other(kind) => kind,
        }
    }
}

/// The body of a request: its fields, each of which is taken once.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, Value)>);

impl Fields {
    /// Reads a body that holds no other fields than `known`.
    pub(super) fn of_json(body: &[u8], known: &[&str]) -> Result<Self> {
        let value = serde_json::from_slice(body).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Error::invalid("body", format!("is not valid JSON at {place}; accepted: an object"))
        })?;
        match value {
            Value::Object(fields) => Self(fields).check(known),
            other => {
                let wrong = format!("is {}; accepted: an object", other.kind());
                Err(Error::invalid("body", wrong))
            }
        }
    }

    /// Reads the parameters of an address.
    pub(super) fn of_query(query: Option<&str>, known: &[&str]) -> Result<Self> {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let fields = pairs.map(|(name, text)| (name.into_owned(), Value::Text(text.into_owned())));
        Self(fields.collect()).check(known)
    }

    /// Refuses fields that are not known or appear twice.
    fn check(self, known: &[&str]) -> Result<Self> {
        for (index, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let hint = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("accepted: {}", known.join(", ")),
                };
                return Err(Error::invalid(shown(name), format!("is not a field; {hint}")));
            }
            if self.0.iter().take(index).any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid(shown(name), "appears twice; accepted: once"));
            }
        }
        Ok(self)
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let index = self.0.iter().position(|(field, _)| field == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// A field of text, if it is there.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => {
                Err(Error::invalid(name, format!("is {}; accepted: a string", other.kind())))
            }
        }
    }

    /// A whole number, if it is there; a query has it as text.
    pub(super) fn whole(&mut self, name: &'static str) -> Result<Option<u64>> {
        let wrong = |kind: &str| {
            Error::invalid(
                name,
                format!("is {kind}; accepted: a whole number that is not negative"),
            )
        };
        match self.take(name) {
            None => Ok(None),
            Some(Value::Whole(number)) => Ok(Some(number)),
            Some(other) => Err(wrong(other.kind())),
        }
    }

    /// A whole number in a query, if it is there.
    pub(super) fn whole_text(&mut self, name: &'static str) -> Result<Option<u64>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        let accepted = "is no number that fits; accepted: a whole number that is not negative";
        number.map(Some).ok_or_else(|| Error::invalid(name, accepted))
    }
}

/// A name from outside, short enough for an error.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

/// What acquire and its relatives have in common.
#[derive(Debug)]
pub(super) struct Request {
    policy: String,
    key: String,
    cost: Cost,
    request_id: Option<String>,
}

impl Request {
    /// The fields of acquire and peek.
    pub(super) const FIELDS: [&'static str; 4] = ["policy", "key", "cost", "request_id"];
    /// The fields that name a key.
    pub(super) const KEY_FIELDS: [&'static str; 2] = ["policy", "key"];

    /// Takes what is known from a body.
    pub(super) fn of(fields: &mut Fields) -> Result<Self> {
        let cost = fields.whole("cost")?;
        Self::with_cost(fields, cost)
    }

    /// Takes what is known from a query.
    pub(super) fn of_query(fields: &mut Fields) -> Result<Self> {
        let cost = fields.whole_text("cost")?;
        Self::with_cost(fields, cost)
    }

    fn with_cost(fields: &mut Fields, cost: Option<u64>) -> Result<Self> {
        Ok(Self {
            policy: fields.text("policy")?.unwrap_or_else(|| DEFAULT_POLICY.to_owned()),
            key: fields.text("key")?.ok_or_else(|| Error::invalid("key", "is missing"))?,
            cost: cost.map_or(Ok(Cost::ONE), Cost::new)?,
            request_id: fields.text("request_id")?,
        })
    }

    /// A whole body.
    pub(super) fn of_body(body: &[u8], known: &[&str]) -> Result<Self> {
        Self::of(&mut Fields::of_json(body, known)?)
    }

    /// What the engine is asked.
    pub(super) fn ask(&self) -> Ask<'_> {
        Ask {
            target: Target::Policy(&self.policy),
            key: &self.key,
            cost: self.cost,
            request_id: self.request_id.as_deref(),
        }
    }
}

/// The requests of a batch; each is wrong on its own.
pub(super) fn batch(body: &[u8]) -> Result<Vec<Result<Request>>, crate::engine::Failure> {
    let mut fields = Fields::of_json(body, &["requests"])?;
    let requests = match fields.take("requests") {
        Some(Value::Array(requests)) => requests,
        Some(other) => {
            let wrong = format!("is {}; accepted: an array", other.kind());
            return Err(Error::invalid("requests", wrong).into());
        }
        None => {
            let accepted = format!("is missing; accepted: an array of up to {BATCH_MAX} requests");
            return Err(Error::invalid("requests", accepted).into());
        }
    };
    accept_batch(requests.len())?;
    let read = |value| match value {
        Value::Object(fields) => Request::of(&mut Fields(fields).check(&Request::FIELDS)?),
        // The element itself is at fault, and none of its fields.
        other => {
            let wrong = format!("is {}; accepted: an object", other.kind());
            Err(Error::new(Code::InvalidRequest, wrong))
        }
    };
    Ok(requests.into_iter().map(read).collect())
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Other("a negative number"))
    }

    /// Some languages write every number with a point: `2.0` is a whole number.
    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        let whole = format!("{number}").parse().map(Value::Whole);
        Ok(whole.unwrap_or(Value::Other("not a whole number, or too large")))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Other("a truth value"))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Other("null"))
    }
}

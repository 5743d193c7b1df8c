//! Values and fields of JSON bodies and query strings. Strict: every field is known, appears once
//! and has its type; an error names the field and what is accepted.
//!
//! Texts without escapes are borrowed from the body.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tollgate_core::{Code, Error, Result};

use crate::engine::BATCH_MAX;
use crate::policy::nearest;

/// A value, as far as the API accepts values.
#[derive(Debug)]
pub(super) enum Value<'a> {
    Object(Vec<(Cow<'a, str>, Self)>),
    Array(Vec<Self>),
    /// An array of more elements than any may have; they are not kept.
    Long(usize),
    Text(Cow<'a, str>),
    Whole(u64),
    Truth(bool),
    /// Any other value, described for messages.
    Other(&'static str),
}

impl Value<'_> {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Object(_) => "an object",
            Self::Array(_) | Self::Long(_) => "an array",
            Self::Text(_) => "a string",
            Self::Whole(_) => "a number",
            Self::Truth(_) => "a truth value",
            Self::Other(kind) => kind,
        }
    }
}

/// Whole numbers by name.
pub(super) type Numbers<'a> = Vec<(Cow<'a, str>, u64)>;

/// The fields of a body or a query; each is taken once.
#[derive(Debug)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Fields<'a> {
    /// Reads a body that holds no other fields than `known`.
    pub(super) fn of_json(body: &'a [u8], known: &[&str]) -> Result<Self> {
        let value = serde_json::from_slice(body).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Error::invalid("body", format!("is not valid JSON at {place}; accepted: an object"))
        })?;
        match value {
            Value::Object(_) => Self::of_value(value, known),
            other => {
                let wrong = format!("is {}; accepted: an object", other.kind());
                Err(Error::invalid("body", wrong))
            }
        }
    }

    /// Reads a query that holds no other fields than `known`.
    pub(super) fn of_query(query: Option<&'a str>, known: &[&str]) -> Result<Self> {
        let query = query.unwrap_or_default();
        let pairs = form_urlencoded::parse(query.as_bytes());
        let fields = Self(pairs.map(|(name, text)| (name, Value::Text(text))).collect());
        let fields = fields.check(known)?;
        // Decoding replaces what is not UTF-8: other bytes would share the budget of U+FFFD.
        let encoded = query.split('&').filter(|pair| !pair.is_empty());
        for ((name, _), pair) in fields.0.iter().zip(encoded) {
            if pair.contains('%') && !is_utf8(pair) {
                return Err(Error::invalid(shorten(name), "is not UTF-8"));
            }
        }
        Ok(fields)
    }

    /// Refuses fields that are not known or appear twice.
    fn check(self, known: &[&str]) -> Result<Self> {
        for (index, (name, _)) in self.0.iter().enumerate() {
            if !known.contains(&&**name) {
                let hint = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("accepted: {}", known.join(", ")),
                };
                return Err(Error::invalid(shorten(name), format!("is not a field; {hint}")));
            }
            if self.0.iter().take(index).any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid(shorten(name), "appears twice; accepted: once"));
            }
        }
        Ok(self)
    }

    /// Reads an object that holds no other fields than `known`. An error names no field if the
    /// value itself is wrong.
    pub(super) fn of_value(value: Value<'a>, known: &[&str]) -> Result<Self> {
        match value {
            Value::Object(fields) => Self(fields).check(known),
            other => {
                let wrong = format!("is {}; accepted: an object", other.kind());
                Err(Error::new(Code::InvalidRequest, wrong))
            }
        }
    }

    /// Whether every field was taken.
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let index = self.0.iter().position(|(field, _)| field == name)?;
        Some(self.0.swap_remove(index).1)
    }

    /// A field of text, if it is there.
    pub(super) fn text(&mut self, name: &'static str) -> Result<Option<Cow<'a, str>>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(other) => {
                Err(Error::invalid(name, format!("is {}; accepted: a string", other.kind())))
            }
        }
    }

    /// A whole number of a body, if it is there. An error names it as `path`.
    pub(super) fn whole(&mut self, name: &str, path: &'static str) -> Result<Option<u64>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Whole(number)) => Ok(Some(number)),
            Some(other) => {
                let accepted = "accepted: a whole number that is not negative";
                Err(Error::invalid(path, format!("is {}; {accepted}", other.kind())))
            }
        }
    }

    /// An object of whole numbers whose names are free, if it is there.
    pub(super) fn numbers(&mut self, name: &'static str) -> Result<Option<Numbers<'a>>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let Value::Object(entries) = value else {
            let wrong = format!("is {}; accepted: an object of whole numbers", value.kind());
            return Err(Error::invalid(name, wrong));
        };
        let mut numbers: Numbers<'a> = Vec::new();
        for (of, value) in entries {
            let path = || format!("{name}.{}", shorten(&of));
            let Value::Whole(number) = value else {
                let accepted = "accepted: a whole number that is not negative";
                return Err(Error::invalid(path(), format!("is {}; {accepted}", value.kind())));
            };
            if numbers.iter().any(|(earlier, _)| *earlier == of) {
                return Err(Error::invalid(path(), "appears twice; accepted: once"));
            }
            numbers.push((of, number));
        }
        Ok(Some(numbers))
    }

    /// An array of at most `max` elements, if it is there.
    pub(super) fn list(
        &mut self,
        name: &'static str,
        max: usize,
    ) -> Result<Option<Vec<Value<'a>>>> {
        let too_many = |count| {
            let accepted = format!("has {count} elements; accepted: up to {max}");
            Err(Error::invalid(name, accepted))
        };
        match self.take(name) {
            None => Ok(None),
            Some(Value::Array(elements)) if elements.len() > max => too_many(elements.len()),
            Some(Value::Array(elements)) => Ok(Some(elements)),
            Some(Value::Long(count)) => too_many(count),
            Some(other) => {
                Err(Error::invalid(name, format!("is {}; accepted: an array", other.kind())))
            }
        }
    }

    /// `true` or `false`, if it is there.
    pub(super) fn truth(&mut self, name: &'static str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Truth(truth)) => Ok(Some(truth)),
            Some(other) => {
                Err(Error::invalid(name, format!("is {}; accepted: true, false", other.kind())))
            }
        }
    }

    /// A whole number of a query, if it is there.
    pub(super) fn whole_text(&mut self, name: &'static str) -> Result<Option<u64>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits { text.parse().ok() } else { None };
        let accepted = "is no number that fits; accepted: a whole number that is not negative";
        number.map(Some).ok_or_else(|| Error::invalid(name, accepted))
    }
}

/// Whether a percent-encoded text is UTF-8.
fn is_utf8(encoded: &str) -> bool {
    let mut rest = encoded.bytes();
    let mut decoded = Vec::with_capacity(encoded.len());
    while let Some(byte) = rest.next() {
        let mut digits = rest.clone();
        let mut digit = || digits.next().and_then(|digit| char::from(digit).to_digit(16));
        decoded.push(match (byte, digit(), digit()) {
            (b'%', Some(high), Some(low)) => {
                rest = digits;
                u8::try_from(high * 16 + low).unwrap_or_default()
            }
            _ => byte,
        });
    }
    std::str::from_utf8(&decoded).is_ok()
}

/// A name from outside, short enough for an error message.
fn shorten(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = map.next_entry::<Value<'de>, _>()? {
            // Names of fields are texts in JSON.
            let Value::Text(name) = name else { continue };
            fields.push((name, value));
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let (mut elements, mut count) = (Vec::new(), 0);
        while elements.len() < BATCH_MAX {
            let Some(element) = seq.next_element()? else { return Ok(Value::Array(elements)) };
            elements.push(element);
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(if count == 0 { Value::Array(elements) } else { Value::Long(BATCH_MAX + count) })
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Value::Other("a negative number"))
    }

    /// Some languages write every number with a point: `2.0` is a whole number.
    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        let whole = format!("{number}").parse().map(Value::Whole);
        Ok(whole.unwrap_or(Value::Other("not a whole number, or too large")))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(Value::Truth(truth))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Value::Other("null"))
    }
}

//! What clients are told about their quota: the fields of one or several dialects.
//!
//! The fields of the current draft are the default. Older dialects are off by default, because
//! clients disagree about what their numbers mean.

mod dialect;
mod reading;

use core::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate::{Error, Limit, Result};

use crate::subject::Subject;

pub use dialect::{Dialect, Reset};
pub(crate) use reading::{Brief, Reading};

use reading::{INTEGER_MAX, window_s};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The dialects of a layer, with what does not change from response to response.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    dialects: Vec<Dialect>,
    policy: Option<HeaderValue>,
}

impl Headers {
    /// No header at all.
    pub(crate) const fn off() -> Self {
        Self { dialects: Vec::new(), policy: None }
    }

    /// # Errors
    /// `config_invalid` when two dialects use the same field for different things.
    pub(crate) fn new(dialects: Vec<Dialect>, limits: &[&Limit]) -> Result<Self> {
        for (index, one) in dialects.iter().enumerate() {
            let mut others = dialects.iter().take(index);
            if let Some(other) = others.find(|other| other.shares_a_field_with(*one)) {
                let message = format!("{other} and {one} share a field; accepted: one of them");
                return Err(Error::config("headers", message));
            }
        }
        let stated = dialects.iter().find_map(|dialect| dialect.policy(limits));
        // Names of policies and digits are always accepted in a header.
        let policy = stated.and_then(|text| HeaderValue::from_str(&text).ok());
        Ok(Self { dialects, policy })
    }

    pub(crate) fn is_on(&self) -> bool {
        !self.dialects.is_empty()
    }

    /// Adds the fields of every dialect. A field that the service has set itself is replaced.
    pub(crate) fn write(&self, readings: &[Reading<'_>], headers: &mut HeaderMap) {
        if let Some(policy) = &self.policy {
            headers.insert(RATELIMIT_POLICY, policy.clone());
        }
        for dialect in &self.dialects {
            dialect.write(readings, headers);
        }
    }
}

/// `"per-ip";q=100;w=60, "per-user";q=1000`, as stated by the current draft.
fn draft_11_policy(limits: &[&Limit]) -> String {
    list(limits, |text, limit| {
        let (name, ceiling) = (limit.policy(), limit.rule().ceiling().min(INTEGER_MAX));
        let _ = write!(text, "\"{name}\";q={ceiling}");
        if let Some(window) = window_s(limit) {
            let _ = write!(text, ";w={window}");
        }
    })
}

/// `100;w=60, 1000;w=3600`, as in drafts 04 to 07.
fn draft_06_policy(limits: &[&Limit]) -> String {
    list(limits, |text, limit| {
        let _ = write!(text, "{}", limit.rule().ceiling());
        if let Some(window) = window_s(limit) {
            let _ = write!(text, ";w={window}");
        }
    })
}

fn list<T>(items: &[T], mut one: impl FnMut(&mut String, &T)) -> String {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push_str(", ");
        }
        one(&mut text, item);
    }
    text
}

/// `"per-ip";r=50;t=30`.
fn write_draft_11(readings: &[Reading<'_>], headers: &mut HeaderMap) {
    let mut text = Subject::default();
    for (index, reading) in readings.iter().enumerate() {
        text.push(if index > 0 { ", \"" } else { "\"" });
        text.push(reading.policy);
        text.push("\";r=");
        text.push_number(reading.remaining);
        text.push(";t=");
        text.push_number(reading.wait_s);
    }
    insert(headers, RATELIMIT, &text);
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: &Subject) {
    if let Ok(value) = HeaderValue::from_str(value.as_str()) {
        headers.insert(name, value);
    }
}

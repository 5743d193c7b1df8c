//! The record of a charged request id: enough to derive the same decision again.
//!
//! Its text is one line of JSON, integers and strings only:
//! `["id","payload",expires,now,[quota_id],[before],[quota_id],[before],…]`, with one pair per
//! charge, where `[quota_id]` is the quota of then and `[before]` the text of the state before,
//! `[]` for none. Strings are percent-encoded ([`encode`]), so they need no JSON escapes and are
//! compared as they are: two texts are the same exactly when their encodings are. The parser
//! accepts what the writer writes and nothing else.

use core::fmt::Write as _;

use super::Evidence;
use crate::charge::{Admission, Charge};
use crate::error::{Code, Error, Result};
use crate::key::Key;
use crate::state::{QuotaId, State};
use crate::time::{Micros, Now};

/// What is kept of a charged request id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The id, encoded.
    pub(super) id: String,
    /// What the id is bound to, encoded.
    pub(super) payload: String,
    /// From this instant on the record counts as absent.
    pub(super) expires: Micros,
    /// What the clock said at the charge.
    now: Micros,
    /// The quota of each charge and the state of its key before.
    evidence: Vec<(QuotaId, Option<State>)>,
}

impl Record {
    /// The record of an admission that was charged at `now`.
    pub(super) fn of(
        request: RequestIdKey,
        now: Now,
        charges: &[Charge<'_>],
        before: &[Option<State>],
    ) -> Self {
        let quota_ids = charges.iter().map(|charge| charge.rule().quota_id());
        let kept = charges
            .iter()
            .zip(before)
            .map(|(charge, before)| Some(charge.evidence(before.as_ref()?, now)));
        Self {
            id: request.id,
            payload: request.payload,
            expires: now.reading().saturating_add(request.keep),
            now: now.reading(),
            evidence: quota_ids.zip(kept).collect(),
        }
    }

    /// The evidence of the first time, if that was for the same admission.
    fn replay_for(&self, admission: &Admission<'_>) -> Result<Evidence> {
        match request_id_key(admission) {
            Some(request) if request.payload == self.payload => Ok(self.replay()),
            _ => Err(conflict()),
        }
    }

    /// The evidence of the first time.
    pub(super) fn replay(&self) -> Evidence {
        let (quota_ids, before): (_, Vec<_>) = self.evidence.iter().cloned().unzip();
        Evidence::replayed(Now::at(self.now), before, quota_ids)
    }

    pub(super) fn to_line(&self) -> String {
        let Self { id, payload, .. } = self;
        let mut line = format!(r#"["{id}","{payload}",{},{}"#, self.expires, self.now);
        for (quota_id, before) in &self.evidence {
            line.push_str(&evidence_text(*quota_id, before.as_ref()));
        }
        line.push(']');
        line
    }

    /// Reads a line back; `None` for anything that [`Record::to_line`] does not write.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let mut cursor = Cursor(line);
        cursor.eat("[")?;
        let id = cursor.quoted()?.to_owned();
        cursor.eat(",")?;
        let payload = cursor.quoted()?.to_owned();
        cursor.eat(",")?;
        let expires = cursor.integer()?;
        cursor.eat(",")?;
        let now = cursor.integer()?;
        let mut evidence = Vec::new();
        while cursor.eat("]").is_none() {
            cursor.eat(",")?;
            let quota = State::from_text(cursor.list()?).ok()?;
            cursor.eat(",")?;
            let before = match cursor.list()? {
                "[]" => None,
                text => Some(State::from_text(text).ok()?),
            };
            if !quota.words.is_empty() || !quota.others.is_empty() {
                return None;
            }
            evidence.push((quota.quota_id, before));
        }
        let record = Self { id, payload, expires, now, evidence };
        cursor.0.is_empty().then_some(record)
    }
}

/// The text of one charge in a record: its quota, and the state of its key before.
#[must_use]
pub fn evidence_text(quota_id: QuotaId, before: Option<&State>) -> String {
    let [a, b, c, d] = quota_id.0;
    let before = before.map_or_else(|| "[]".to_owned(), State::to_text);
    format!(",[{a},{b},{c},{d}],{before}")
}

/// The value under [`name`] of an admission that was charged at `now`, and when it expires. `None`
/// without a request id.
#[must_use]
pub fn value(
    admission: &Admission<'_>,
    before: &[Option<State>],
    now: Now,
) -> Option<(String, Micros)> {
    let record = Record::of(request_id_key(admission)?, now, admission.charges(), before);
    Some((format!("[]\n{}", record.to_line()), record.expires))
}

/// A request id on its way to a record, with what it is bound to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestIdKey {
    /// The id, encoded.
    pub id: String,
    /// What it is bound to, encoded.
    pub payload: String,
    /// How long it is kept, in microseconds.
    pub keep: Micros,
}

/// The request id of an admission, if it has one.
#[must_use]
pub fn request_id_key(admission: &Admission<'_>) -> Option<RequestIdKey> {
    let request = admission.request_id?;
    let (id, payload) = (encode(request.id), encode(&admission.payload()));
    Some(RequestIdKey { id, payload, keep: request.keep })
}

/// `<key text>:once:<id>`, where the record of an encoded id lives: it shares the hash tag of its
/// key, and is the text of no other key.
#[must_use]
pub fn name(key: Key<'_>, id: &str) -> String {
    let mut name = key.to_text();
    name.push_str(":once:");
    name.push_str(id);
    name
}

/// Whether a text is the [`name`] of a record: no key's text goes on behind its subject.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.contains("}:once:")
}

/// How the [`name`]s of all records of the policy of a key begin.
pub(in crate::store) fn names_of_policy(key: Key<'_>) -> String {
    let mut names = key.to_text();
    names.truncate(names.find('{').map_or(0, |brace| brace + 1));
    names
}

/// Whether the value under [`name`] is that of a settlement: what it is bound to has a key, and
/// behind it [`SETTLED`].
#[must_use]
pub fn is_of_settlement(value: &str) -> bool {
    let payload = value.split_once("\",\"").map_or("", |(_, payload)| payload);
    payload.contains(SETTLED)
}

/// The end of a key and what follows it in the payload of a settlement, and of no other, encoded.
pub const SETTLED: &str = "%7D-";

/// The evidence of the first time, from the value under [`name`].
///
/// # Errors
/// `idempotency_conflict` when the id was charged for something else, `corrupt_state` when the
/// value cannot be read.
pub fn replay(text: &str, admission: &Admission<'_>) -> Result<Evidence> {
    record_in(text)?.replay_for(admission)
}

/// As [`replay`], unless the record has expired at `now`.
///
/// # Errors
/// As [`replay`].
pub fn replay_at(text: &str, admission: &Admission<'_>, now: Micros) -> Result<Option<Evidence>> {
    let record = record_in(text)?;
    if record.expires <= now { Ok(None) } else { record.replay_for(admission).map(Some) }
}

fn record_in(text: &str) -> Result<Record> {
    let line = text.strip_prefix("[]\n");
    line.and_then(Record::from_line).ok_or_else(|| {
        let message = "a stored request id cannot be read; it expires by itself";
        Error::new(Code::CorruptState, message)
    })
}

/// The request id was charged before for something else.
pub(super) fn conflict() -> Error {
    let message = "the request id was used before for another request on this key";
    Error::new(Code::IdempotencyConflict, message)
}

/// Percent-encodes `% : { } " \` and control characters. No two texts share an encoding.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '%' | ':' | '{' | '}' | '"' | '\\' | '\0'..='\x1f' | '\x7f' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "%{:02X}", u32::from(c));
            }
            other => out.push(other),
        }
    }
    out
}

/// What is left to read of a line.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn eat(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(token)?;
        Some(())
    }

    /// A string without escapes, which the encoding makes needless.
    fn quoted(&mut self) -> Option<&'a str> {
        self.eat("\"")?;
        let (text, rest) = self.0.split_once('"')?;
        self.0 = rest;
        let is_plain = !text.contains(|c: char| c == '\\' || c.is_ascii_control());
        is_plain.then_some(text)
    }

    /// Digits without leading zeros: one text for one number.
    fn integer(&mut self) -> Option<u64> {
        let end = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(end);
        self.0 = rest;
        let is_canonical = digits == "0" || !digits.starts_with('0');
        digits.parse().ok().filter(|_| is_canonical)
    }

    /// A list, brackets and the lists in it included.
    fn list(&mut self) -> Option<&'a str> {
        let mut open = 0_usize;
        let closes = |c: char| {
            match c {
                '[' => open += 1,
                ']' => open = open.saturating_sub(1),
                _ => {}
            }
            open == 0
        };
        let end = self.0.find(closes).filter(|_| self.0.starts_with('['))? + 1;
        let (list, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{QuotaState, Words};

    fn sample(before: Option<State>) -> Record {
        Record {
            id: encode("a:b{c}%\"\\\n\u{7f}é"),
            payload: encode("t:p:{x}=5;"),
            expires: 900,
            now: 0,
            evidence: vec![(QuotaId([1, 2, 3, 4]), before), (QuotaId([5, 0, 0, u64::MAX]), None)],
        }
    }

    fn state() -> State {
        let other = |tag| QuotaState { quota_id: QuotaId([tag; 4]), words: Words::new(&[tag]) };
        let mut state = State::new(QuotaId([9, 8, 7, 6]), Words::new(&[1, 2, 3, 4, 5]));
        state.others = vec![other(7), other(0)];
        state
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let records =
            [sample(None), sample(Some(state())), Record { evidence: vec![], ..sample(None) }];
        for record in records {
            let line = record.to_line();
            assert!(!line.contains('\n'), "a record must stay on one line");
            assert_eq!(Record::from_line(&line), Some(record), "{line}");
        }
    }

    #[test]
    fn nothing_but_a_written_line_is_accepted() {
        let line = sample(Some(state())).to_line();
        for cut in 0..line.len() {
            if let Some(head) = line.get(..cut) {
                assert_eq!(Record::from_line(head), None, "{head}");
            }
        }
        let odd = [
            format!("{line} "),
            format!(" {line}"),
            line.replace(",900,", ",0900,"),
            line.replace(",900,", ",-1,"),
            line.replace(",900,", ",9e2,"),
            line.replace(",900,", ",99999999999999999999,"),
            line.replace("[1,2,3,4]", "[1,2,3]"),
            line.replace("[1,2,3,4]", "[1,2,3,4,5]"),
            line.replace("[1,2,3,4]", "[]"),
            line.replace("%25", "\\u0025"),
        ];
        for text in odd {
            assert_eq!(Record::from_line(&text), None, "{text}");
        }
    }

    #[test]
    fn a_replay_is_bound_to_the_payload_of_the_first_time() {
        let window = crate::algorithm::FixedWindow::new(
            crate::quota::Quota::per_hour(5),
            crate::algorithm::Anchor::Epoch,
        );
        let limit = crate::limit::Limit::new("p", window.unwrap()).unwrap();
        let two = crate::cost::Cost::new(2).unwrap();
        let (one_unit, two_units) = ([limit.charge("a")], [limit.charge("a").cost(two)]);
        let id = crate::charge::RequestId::new("id").unwrap();
        let first = Admission::of(&one_unit).request_id(id);
        let request = request_id_key(&first).unwrap();
        let record = Record::of(request, Now::at(7), &one_unit, &[Some(state())]);
        let text = format!("[]\n{}", record.to_line());
        assert_eq!(replay(&text, &first).unwrap().now, Now::at(7));
        for (at, replayed) in [(record.expires - 1, Some(Now::at(7))), (record.expires, None)] {
            let found = replay_at(&text, &first, at).unwrap().map(|evidence| evidence.now);
            assert_eq!(found, replayed, "it expires at {}", record.expires);
        }
        let code = |admission: &Admission<'_>, text: &str| {
            replay(text, admission).map_err(|error| error.code()).unwrap_err()
        };
        let other = Admission::of(&two_units).request_id(id);
        assert_eq!(code(&other, &text), Code::IdempotencyConflict);
        assert_eq!(code(&Admission::of(&one_unit), &text), Code::IdempotencyConflict, "no id");
        assert_eq!(code(&first, &record.to_line()), Code::CorruptState);
    }

    #[test]
    fn encodings_of_different_texts_differ() {
        let texts = ["a", "%61", "a%", "a%25", ":", "%3A", "\"", "\\", "\n", "é"];
        for (i, one) in texts.iter().enumerate() {
            for other in &texts[i + 1..] {
                assert_ne!(encode(one), encode(other));
            }
        }
    }

    #[test]
    fn the_name_of_a_record_is_no_key() {
        let policy = crate::key::Name::new("policy", "p").unwrap();
        let key = |subject| Key { prefix: &policy, policy: &policy, subject };
        for subject in ["", "a", "{a}:once:b", "}:once:", "a:once:b", "%7D:once:"] {
            assert!(!is_name(&key(subject).to_text()), "{subject}");
            assert!(is_name(&name(key(subject), &encode("any:{id}"))), "{subject}");
        }
    }
}

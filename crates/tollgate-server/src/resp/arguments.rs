//! The words of a command: numbers, texts, charges.

use bytes::Bytes;
use tollgate::{Cost, Error, Result};
use tollgate_service::engine::{RequestedCharge, range};

/// The field of an error about the number or the order of words.
pub(super) const ARGUMENTS: &str = "arguments";

/// The error of a command with other words than it takes.
pub(super) fn usage(accepted: &str) -> Error {
    Error::invalid(ARGUMENTS, format!("accepted: {accepted}"))
}

pub(super) fn text(field: &'static str, word: &Bytes) -> Result<String> {
    let utf8 = std::str::from_utf8(word).map(str::to_owned);
    utf8.map_err(|_| Error::invalid(field, "is not UTF-8"))
}

pub(super) fn whole(field: &'static str, word: &Bytes) -> Result<u64> {
    number(field, word, "accepted: a whole number that is not negative")
}

fn number(field: &'static str, word: &[u8], accepted: &str) -> Result<u64> {
    let digits = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(word).ok().filter(|_| digits);
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::invalid(field, format!("is no number that fits; {accepted}")))
}

/// Units: a number, or a range `1..10`.
fn units(word: &Bytes) -> Result<(Cost, Option<Cost>)> {
    let read = |word: &[u8]| {
        number("cost", word, "accepted: a whole number, or a range of two, such as 1..10")
    };
    let dots = word.windows(2).position(|pair| pair == b"..");
    let least_and_most = dots.and_then(|at| Some((word.get(..at)?, word.get(at + 2..)?)));
    let Some((least, most)) = least_and_most else { return Ok((Cost::new(read(word)?)?, None)) };
    let (least, most) = range(("cost", Some(read(least)?)), ("cost", read(most)?))?;
    Ok((least, Some(most)))
}

/// A key under a policy, and the units requested.
#[derive(Debug)]
pub(super) struct OwnedCharge {
    policy: String,
    key: String,
    cost: Cost,
    up_to: Option<Cost>,
}

impl OwnedCharge {
    /// One unit, if there is no word for the cost.
    pub(super) fn of(policy: &Bytes, key: &Bytes, cost: Option<&Bytes>) -> Result<Self> {
        let (cost, up_to) = cost.map_or(Ok((Cost::ONE, None)), units)?;
        Ok(Self { policy: text("policy", policy)?, key: text("key", key)?, cost, up_to })
    }

    pub(super) fn requested(&self) -> RequestedCharge<'_> {
        RequestedCharge::new(&self.policy, &self.key).cost(self.cost).up_to(self.up_to)
    }

    pub(super) const fn is_range(&self) -> bool {
        self.up_to.is_some()
    }

    /// The policy and the key.
    pub(super) fn names(&self) -> (&str, &str) {
        (&self.policy, &self.key)
    }

    /// Refuses a range, where there is none.
    pub(super) fn exact(self) -> Result<Self> {
        match self.up_to {
            None => Ok(self),
            Some(_) => Err(Error::invalid("cost", "is a range; accepted: a whole number")),
        }
    }
}

/// The options at the end of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// `RECEIPT`: the reply is to have a receipt.
    pub(super) receipt: bool,
    /// `FULL`: the reply is to have every field, also in version 2.
    pub(super) full: bool,
}

impl Options {
    /// Takes options from the end of words of which there are `least` without them. A policy or a
    /// key may have such a name.
    pub(super) fn take(mut words: &[Bytes], least: usize) -> (&[Bytes], Self) {
        let mut options = Self::default();
        while let Some((last, rest)) = words.split_last().filter(|(_, rest)| rest.len() >= least) {
            let option = if last.eq_ignore_ascii_case(b"RECEIPT") {
                &mut options.receipt
            } else if last.eq_ignore_ascii_case(b"FULL") {
                &mut options.full
            } else {
                break;
            };
            // Once each: what is before may be a request id of that name.
            if std::mem::replace(option, true) {
                break;
            }
            words = rest;
        }
        (words, options)
    }
}

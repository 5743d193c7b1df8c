//! The bytes of a receipt, without its code.
//!
//! A version (2), the nonce (8 bytes), the second of the charge, for how many seconds the receipt
//! is accepted, and the subjects: policy, key, and the limits, each with name, units and mark.
//! Numbers are unsigned LEB128, in their shortest form; texts and lists begin with their length.
//! There is one encoding of each content.

use tollgate_core::Cost;

use super::{ChargedLimit, ChargedSubject, ReceiptContent};

const VERSION: u8 = 2;

impl ReceiptContent {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend(self.nonce.to_be_bytes());
        put(&mut out, self.charged_at_s);
        put(&mut out, self.valid_for_s);
        put_length(&mut out, self.subjects.len());
        for subject in &self.subjects {
            put_text(&mut out, &subject.policy);
            put_text(&mut out, &subject.key);
            put_length(&mut out, subject.limits.len());
            for limit in &subject.limits {
                put_text(&mut out, &limit.name);
                put(&mut out, limit.units.get());
                put(&mut out, limit.until_ms);
            }
        }
        out
    }

    /// Reads what [`Self::to_bytes`] writes, and nothing else.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = Reader(bytes);
        if rest.take(1)? != [VERSION] {
            return None;
        }
        let nonce = u64::from_be_bytes(rest.take(8)?.try_into().ok()?);
        let (charged_at_s, valid_for_s) = (rest.number()?, rest.number()?);
        let subjects = rest.list(|rest| {
            let (policy, key) = (rest.text()?, rest.text()?);
            let limits = rest.list(|rest| {
                let (name, units, until_ms) = (rest.text()?, rest.number()?, rest.number()?);
                Some(ChargedLimit { name, units: Cost::new(units).ok()?, until_ms })
            })?;
            Some(ChargedSubject { policy, key, limits })
        })?;
        let content = Self { charged_at_s, valid_for_s, nonce, subjects };
        rest.0.is_empty().then_some(content)
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    put(out, u64::try_from(length).unwrap_or(u64::MAX));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length(out, text.len());
    out.extend(text.as_bytes());
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            let bits = u64::from(byte & 0x7F);
            number |= bits << shift;
            if byte < 0x80 {
                // The last byte is no padding, and no bit was lost.
                let is_shortest = shift == 0 || byte != 0;
                return (is_shortest && bits << shift >> shift == bits).then_some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    /// A list of at least one element. It takes no memory for elements that are not there.
    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.number().filter(|length| *length > 0)?;
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(element(self)?);
        }
        Some(list)
    }
}

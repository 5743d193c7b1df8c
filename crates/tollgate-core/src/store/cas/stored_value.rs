//! The value of a key: its state, and the request ids that live with it.
//!
//! The text is one line per part: first the state (`[]` for none), then one [`Record`] per line. A
//! key without records therefore holds exactly the text of its state, the same bytes as on every
//! other distributed store. A key that only holds a record has `[]` and that record.

use super::record::{Record, SETTLED};
use crate::error::{Code, Error, Result};
use crate::state::State;
use crate::time::Micros;

const NO_STATE: &str = "[]";

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct StoredValue {
    pub(super) state: Option<State>,
    pub(super) records: Vec<Record>,
}

impl StoredValue {
    /// Reads a value.
    ///
    /// # Errors
    /// `corrupt_state` for anything that [`StoredValue::to_text`] does not write.
    pub(super) fn from_text(text: &str) -> Result<Self> {
        let mut lines = text.split('\n');
        let state = match lines.next() {
            None | Some(NO_STATE) => None,
            Some(line) => Some(State::from_text(line)?),
        };
        let records = lines.map(Record::from_line).collect::<Option<_>>();
        let records = records.ok_or_else(|| {
            Error::new(
                Code::CorruptState,
                "a stored request id cannot be read; reset the key to start it afresh",
            )
        })?;
        Ok(Self { state, records })
    }

    pub(super) fn to_text(&self) -> String {
        let state = self.state.as_ref().map(State::to_text);
        let mut text = state.unwrap_or_else(|| NO_STATE.to_owned());
        for record in &self.records {
            text.push('\n');
            text.push_str(&record.to_line());
        }
        text
    }

    /// The live record of an encoded id.
    pub(super) fn record(&self, id: &str, now: Micros) -> Option<&Record> {
        let is_it = |record: &&Record| record.id == id && record.expires > now;
        self.records.iter().find(is_it)
    }

    /// Forgets the records that have expired.
    pub(super) fn prune(&mut self, now: Micros) {
        self.records.retain(|record| record.expires > now);
    }

    /// Forgets the oldest record of a charge; whether there was one. That of a settlement stays: it
    /// could be made again.
    pub(super) fn forget_oldest(&mut self) -> bool {
        let oldest = self.records.iter().position(|record| !record.payload.contains(SETTLED));
        oldest.map(|oldest| self.records.remove(oldest)).is_some()
    }

    /// From when on the value means the same as none, if its state does from `fresh_at` on.
    pub(super) fn idle_from(&self, fresh_at: Micros) -> Micros {
        let expiries = self.records.iter().map(|record| record.expires);
        expiries.fold(fresh_at, Micros::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{QuotaId, Words};

    #[test]
    fn a_value_without_records_is_the_text_of_its_state() {
        let state = State::new(QuotaId([1, 2, 3, 4]), Words::new(&[5, 6]));
        let cell = StoredValue { state: Some(state.clone()), records: vec![] };
        assert_eq!(cell.to_text(), state.to_text());
        assert_eq!(StoredValue::from_text(&cell.to_text()).unwrap(), cell);
        assert_eq!(StoredValue::default().to_text(), "[]");
        assert_eq!(StoredValue::from_text("[]").unwrap(), StoredValue::default());
    }

    #[test]
    fn other_texts_are_corrupt() {
        for text in ["", "x", "[1]", "[]\n", "[1,2,3,4]\n\n", "[]\r\n", "[] ", "[]\n[]"] {
            let code = StoredValue::from_text(text).map_err(|error| error.code());
            assert_eq!(code, Err(Code::CorruptState), "{text:?}");
        }
    }
}

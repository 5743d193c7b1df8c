//! The record of a charged request id: enough to derive the same decision again.
//!
//! The evidence is one line per part: for each charge the quota of then, as the text of a state
//! without words, and the state before, `[]` for none. The texts are those of every other store.

use tollgate_core::store::Evidence;
use tollgate_core::{Charge, Micros, Now, QuotaId, State, Words};

const NO_STATE: &str = "[]";

/// What is remembered of a charged request id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// What the id is bound to.
    pub(crate) payload: String,
    /// From this instant on the record counts as absent.
    pub(crate) expires: Micros,
    /// What the clock said at the charge.
    pub(crate) decided: Micros,
    evidence: Vec<(QuotaId, Option<State>)>,
}

impl Record {
    /// The record of an admission that was charged at `now`.
    pub(crate) fn of(
        payload: String,
        keep: Micros,
        now: Now,
        (charges, before): (&[Charge<'_>], &[Option<State>]),
    ) -> Self {
        let evidence = charges.iter().zip(before).map(|(charge, before)| {
            let kept = before.as_ref().map(|before| charge.evidence(before, now));
            (charge.rule().quota_id(), kept)
        });
        let decided = now.reading();
        let evidence = evidence.collect();
        Self { payload, expires: decided.saturating_add(keep), decided, evidence }
    }

    /// Reads a record back; `None` for what [`Record::evidence`] does not write.
    pub(crate) fn read(
        payload: String,
        (expires, decided): (Micros, Micros),
        evidence: &str,
    ) -> Option<Self> {
        let mut lines = evidence.split('\n');
        let mut pairs = Vec::new();
        while let Some(quota) = lines.next() {
            let quota = State::from_text(quota).ok().filter(|quota| quota.words.is_empty())?;
            let before = match lines.next()? {
                NO_STATE => None,
                text => Some(State::from_text(text).ok()?),
            };
            pairs.push((quota.quota_id, before));
        }
        Some(Self { payload, expires, decided, evidence: pairs })
    }

    /// The text of the evidence.
    pub(crate) fn evidence(&self) -> String {
        let mut lines = Vec::with_capacity(2 * self.evidence.len());
        for (quota_id, before) in &self.evidence {
            lines.push(State { quota_id: *quota_id, words: Words::new(&[]) }.to_text());
            lines.push(before.as_ref().map_or_else(|| NO_STATE.to_owned(), State::to_text));
        }
        lines.join("\n")
    }

    /// The evidence of the first time.
    pub(crate) fn replay(&self) -> Evidence {
        let (quota_ids, before): (_, Vec<_>) = self.evidence.iter().cloned().unzip();
        Evidence::replayed(Now::at(self.decided), before, quota_ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        let state = State { quota_id: QuotaId([9, 8, 7, 6]), words: Words::new(&[1, 2, 3, 4, 5]) };
        let evidence =
            vec![(QuotaId([1, 2, 3, 4]), Some(state)), (QuotaId([5, 0, 0, u64::MAX]), None)];
        Record { payload: "p".into(), expires: 900, decided: 0, evidence }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let record = sample();
        assert_eq!(Record::read("p".into(), (900, 0), &record.evidence()), Some(record));
    }

    #[test]
    fn nothing_else_is_read() {
        let text = sample().evidence();
        for cut in 0..text.len() {
            // A cut after a whole pair is another, shorter record.
            if text[..cut].matches('\n').count() == 1 && text[..cut].ends_with(']') {
                continue;
            }
            assert_eq!(Record::read(String::new(), (0, 0), &text[..cut]), None, "{}", &text[..cut]);
        }
        for odd in ["", "[1,2,3,4,5]\n[]", "[1,2,3,4]\n[] ", "[1,2,3,4]\n[]\n"] {
            assert_eq!(Record::read(String::new(), (0, 0), odd), None, "{odd:?}");
        }
    }
}

//! Charges of one slot together with the record of an admission over several, where no script reads
//! a state: decided in Rust, swapped in if nothing changed.

use tollgate_core::store::cas::{Entry, Snapshot, Swap, Versioned as _};
use tollgate_core::store::compensate::Recorded;
use tollgate_core::store::{Evidence, SlotWrite, TimeSource, plan, record, slots_of};
use tollgate_core::{Charge, Code, Error, Key, Micros, Now, Result, State};

use super::Inner;
use crate::transport::Transport;

/// How long a value outlives its meaning on the server.
const SLACK: Micros = 60_000_000;
/// The text of a key without a state.
const NO_STATE: &str = "[]";

impl<T: Transport> Inner<T> {
    /// Charges the keys of one slot, and records the whole admission with them.
    pub(super) async fn swap_with_record(
        &self,
        charges: &[Charge<'_>],
        recorded: &Recorded<'_>,
        at: TimeSource,
    ) -> Result<Evidence> {
        let (slots, keys) = slots_of(charges);
        let mut names: Vec<String> = keys.iter().map(Key::to_text).collect();
        let home = recorded.admission.charges().first().map(Charge::key);
        let request = record::request_id_key(&recorded.admission);
        names.extend(home.zip(request).map(|(key, request)| record::name(key, &request.id)));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for attempt in 0.. {
            let Snapshot { entries, clock } = self.swapping.backend().read(&names).await?;
            let now = match at {
                TimeSource::Given(at) => Now::at(at),
                TimeSource::StoreClock => Now::at(clock.unwrap_or(0)),
            };
            if let Some(Entry { text, .. }) = entries.get(keys.len()).and_then(Option::as_ref)
                && let Some(first) = record::replay_at(text, &recorded.admission, now.reading())?
            {
                return Ok(first);
            }
            let states =
                entries.iter().take(keys.len()).map(state_of).collect::<Result<Vec<_>>>()?;
            let planned = plan(charges, &slots, &states, now)?;
            let before: Vec<Option<State>> =
                slots.iter().map(|slot| states.get(*slot).cloned().flatten()).collect();
            let mut values: Vec<Value> = planned.writes.iter().map(Value::of).collect();
            if planned.admitted {
                let all = in_order(recorded, &before);
                let record = record::value(&recorded.admission, &all, now);
                let place = keys.len();
                values.extend(record.map(|(text, until)| Value { place, text, until }));
            }
            if values.is_empty() || self.swap_values(&names, &entries, &values).await? {
                return Ok(Evidence::decided(now, before));
            }
            if self.runner.retries.is_exhausted(attempt) {
                break;
            }
        }
        let message = "a key kept changing; nothing was charged";
        Err(Error::new(Code::ConflictExhausted, message))
    }

    /// Writes the values if the keys still hold what was read; whether they did.
    async fn swap_values(
        &self,
        names: &[&str],
        entries: &[Option<Entry>],
        values: &[Value],
    ) -> Result<bool> {
        let swaps = values.iter().filter_map(|Value { place, text, until }| {
            let expect = entries.get(*place)?.as_ref().map(|entry| &entry.version);
            let keep_until = until.saturating_add(SLACK);
            Some(Swap { key: names.get(*place)?, expect, value: text, keep_until })
        });
        let swaps: Vec<Swap<'_>> = swaps.collect();
        self.swapping.backend().swap(&swaps).await
    }
}

/// What a key shall hold.
struct Value {
    place: usize,
    text: String,
    until: Micros,
}

impl Value {
    fn of(write: &SlotWrite) -> Self {
        Self { place: write.slot, text: write.state.to_text(), until: write.fresh_at }
    }
}

fn state_of(entry: &Option<Entry>) -> Result<Option<State>> {
    match entry.as_ref().map(|entry| &*entry.text) {
        None | Some(NO_STATE) => Ok(None),
        Some(text) => State::from_text(text).map(Some),
    }
}

/// The state before each charge of the whole admission: those of this slot, and the known ones.
fn in_order(recorded: &Recorded<'_>, own: &[Option<State>]) -> Vec<Option<State>> {
    let mut own = own.iter();
    let before = recorded.before.iter().map(|known| match known {
        Some(before) => before.clone(),
        None => own.next().cloned().flatten(),
    });
    before.collect()
}

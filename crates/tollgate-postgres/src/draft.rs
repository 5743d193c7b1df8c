//! Admissions over what one round has locked, purely: what each gets to know, and what is written.
//!
//! They run one after another over the same cells, so each sees what those before it charged, and
//! every key is written at most once however many of them charged it. One that fails leaves the
//! cells as they are and does not concern the others. Nothing here waits: `round` reads before and
//! writes after.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tollgate_core::store::{Evidence, TimeSource, plan};
use tollgate_core::{Code, Error, Micros, Now, Result, State};

use crate::audit::Entries;
use crate::fault::corrupt;
use crate::ids::full;
use crate::job::{Job, Mark};
use crate::record::Record;

/// The text of a row that holds no state: it is there so that there is something to lock.
const NO_STATE: &str = "";

/// What a round has read under its locks.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) clock: Micros,
    /// The text of the state of each key that has a row.
    pub(crate) rows: HashMap<String, String>,
    /// The records of the request ids, by key and id; `None` for one that cannot be read.
    pub(crate) records: HashMap<(String, String), Option<Record>>,
}

/// What bounds a draft.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How long a state is kept after it means nothing any more.
    pub(crate) slack: Micros,
    /// How many request ids may be added.
    pub(crate) room: u64,
    /// Whether decisions are written down.
    pub(crate) audits: bool,
}

/// The outcome of all jobs, and the writes that make it true.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) outcomes: Vec<Result<Evidence>>,
    pub(crate) creates: Rows,
    pub(crate) changes: Rows,
    pub(crate) records: Vec<((String, String), Record)>,
    pub(crate) entries: Entries,
}

/// Rows to write, as columns.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) keys: Vec<String>,
    pub(crate) states: Vec<String>,
    pub(crate) expires: Vec<i64>,
}

/// The keys of all jobs, each once, in the order in which they are locked.
pub(crate) fn keys_of(jobs: &[Job]) -> Vec<&str> {
    let keys: BTreeSet<&str> = jobs.iter().flat_map(|job| &job.keys).map(String::as_str).collect();
    keys.into_iter().collect()
}

impl Draft {
    /// Runs the jobs in order over what was read.
    pub(crate) fn make(jobs: &[Job], read: Read, bounds: Bounds) -> Self {
        let mut desk = Desk::open(jobs, read, bounds);
        let outcomes = jobs.iter().map(|job| desk.decide(job)).collect();
        desk.close(outcomes)
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_idle(&self) -> bool {
        let rows = self.creates.keys.is_empty() && self.changes.keys.is_empty();
        rows && self.records.is_empty() && self.entries.is_empty()
    }
}

/// A row while admissions run over it.
#[derive(Debug)]
struct Cell {
    exists: bool,
    /// `None` when it cannot be read.
    state: Option<Option<State>>,
    /// Until when the row is kept, if it was changed.
    written: Option<Micros>,
}

struct Desk {
    cells: HashMap<String, Cell>,
    /// Those that were read, and those that are new.
    records: HashMap<(String, String), Option<Record>>,
    new_records: BTreeMap<(String, String), Record>,
    entries: Entries,
    clock: Micros,
    bounds: Bounds,
}

impl Desk {
    fn open(jobs: &[Job], read: Read, bounds: Bounds) -> Self {
        let mut rows = read.rows;
        let cells = keys_of(jobs).into_iter().map(|key| {
            let text = rows.remove(key);
            let exists = text.is_some();
            let state = match text.as_deref() {
                None | Some(NO_STATE) => Some(None),
                Some(text) => State::from_text(text).ok().map(Some),
            };
            (key.to_owned(), Cell { exists, state, written: None })
        });
        Self {
            cells: cells.collect(),
            records: read.records,
            new_records: BTreeMap::new(),
            entries: Entries::default(),
            clock: read.clock,
            bounds,
        }
    }

    fn decide(&mut self, job: &Job) -> Result<Evidence> {
        let now = match job.at {
            TimeSource::StoreClock => Now::at(self.clock),
            TimeSource::Given(reading) => Now::at(reading),
        };
        if let Some(mark) = &job.mark
            && let Some(replay) = self.replay(job, mark, now)?
        {
            return Ok(replay);
        }
        let states: Vec<Option<State>> =
            job.keys.iter().map(|key| self.state(key)).collect::<Result<_>>()?;
        let charges = job.charges();
        let plan = plan(&charges, &job.slots, &states, now)?;
        let before: Vec<Option<State>> =
            job.slots.iter().map(|slot| states.get(*slot).cloned().flatten()).collect();
        if let Some(mark) = job.mark.as_ref().filter(|_| plan.admitted) {
            let record = Record::of(mark.payload.clone(), mark.keep, now, (&charges, &before));
            self.remember(job, mark, record)?;
        }
        if self.bounds.audits {
            self.entries.add(job, &charges, &plan, now);
        }
        for write in plan.writes {
            let keep = write.fresh_at.saturating_add(self.bounds.slack);
            if let Some(cell) = job.keys.get(write.slot).and_then(|key| self.cells.get_mut(key)) {
                cell.state = Some(Some(write.state));
                cell.written = Some(keep);
            }
        }
        Ok(Evidence::decided(now, before))
    }

    fn state(&self, key: &str) -> Result<Option<State>> {
        self.cells.get(key).and_then(|cell| cell.state.clone()).ok_or_else(corrupt)
    }

    /// The evidence of the first time, if this id was charged before.
    fn replay(&self, job: &Job, mark: &Mark, now: Now) -> Result<Option<Evidence>> {
        let place = (job.home().to_owned(), mark.id.clone());
        let known = match self.new_records.get(&place) {
            Some(record) => Some(record),
            None => match self.records.get(&place) {
                Some(None) => return Err(corrupt()),
                Some(Some(record)) => Some(record),
                None => None,
            },
        };
        match known.filter(|record| now.reading() < record.expires) {
            None => Ok(None),
            Some(record) if record.payload == mark.payload => Ok(Some(record.replay())),
            Some(_) => {
                let message = "the request id was used before for another request on this key";
                Err(Error::new(Code::IdempotencyConflict, message))
            }
        }
    }

    fn remember(&mut self, job: &Job, mark: &Mark, record: Record) -> Result<()> {
        self.bounds.room = self.bounds.room.checked_sub(1).ok_or_else(full)?;
        // The row of the first key is the lock of its request ids, so there must be one.
        if let Some(cell) = self.cells.get_mut(job.home())
            && !cell.exists
            && cell.written.is_none()
        {
            cell.written = Some(record.expires.saturating_add(self.bounds.slack));
        }
        self.new_records.insert((job.home().to_owned(), mark.id.clone()), record);
        Ok(())
    }

    fn close(self, outcomes: Vec<Result<Evidence>>) -> Draft {
        let (mut creates, mut changes) = (Rows::default(), Rows::default());
        for (key, cell) in self.cells {
            if let (Some(expires), Some(state)) = (cell.written, cell.state) {
                let rows = if cell.exists { &mut changes } else { &mut creates };
                rows.keys.push(key);
                rows.states.push(state.map_or_else(|| NO_STATE.to_owned(), |s| s.to_text()));
                rows.expires.push(stored(expires));
            }
        }
        let records = self.new_records.into_iter().collect();
        Draft { outcomes, creates, changes, records, entries: self.entries }
    }
}

/// A number as the database keeps it. All times that decide are far below its end.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

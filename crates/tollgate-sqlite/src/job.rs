//! Work for the writer thread, owned: the caller may be cancelled while the writer decides.

use tollgate_core::store::{Evidence, Owner};
use tollgate_core::{Admission, Code, Error, Key, Micros, OwnedAdmission, Result, combine};

use crate::sweep::{SweepPosition, SweptPage};

/// The callers of a round.
pub(crate) type Callers = combine::Round<Job, Result<Done>>;

/// One call that waits for the writer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
    /// The policy and the key with which it shares the places of a round.
    pub(crate) owner: Owner,
    /// When the call was made, by the clock of the store.
    pub(crate) since: Micros,
}

/// What a call does.
#[derive(Debug)]
pub(crate) enum Task {
    /// Decides an admission at a reading of the caller's clock.
    Admit(OwnedAdmission, Micros),
    /// Resets a key.
    Reset(String),
    /// Deletes one page of values that are expired at an instant.
    Sweep(SweepPosition, Micros),
}

/// The answer to a call.
#[derive(Debug)]
pub(crate) enum Done {
    Decided(Evidence),
    Reset,
    Swept(SweptPage),
}

impl Job {
    /// A copy of an admission.
    ///
    /// # Errors
    /// `invalid_request` when there is no charge.
    pub(crate) fn admit(admission: &Admission<'_>, reading: Micros, since: Micros) -> Result<Self> {
        let Some(first) = admission.charges().first() else {
            let message = "is empty; accepted: at least one charge";
            return Err(Error::invalid("charges", message).not_sent());
        };
        let task = Task::Admit(admission.into(), reading);
        Ok(Self { task, owner: Owner::of(first.key()), since })
    }

    pub(crate) fn reset(key: Key<'_>, since: Micros) -> Self {
        Self { task: Task::Reset(key.to_text()), owner: Owner::of(key), since }
    }

    pub(crate) fn sweep(position: SweepPosition, now: Micros, since: Micros) -> Self {
        Self { task: Task::Sweep(position, now), owner: Owner::default(), since }
    }
}

impl Done {
    /// The evidence of an admission.
    pub(crate) fn into_evidence(self) -> Result<Evidence> {
        match self {
            Self::Decided(evidence) => Ok(evidence),
            Self::Reset | Self::Swept(_) => {
                Err(Error::new(Code::CorruptState, "the answer to another kind of call"))
            }
        }
    }
}

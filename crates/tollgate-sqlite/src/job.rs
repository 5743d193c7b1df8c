//! Work for the writer thread, owned: the caller may be cancelled while the writer decides.

use tollgate_core::store::Evidence;
use tollgate_core::{Admission, Code, Error, Micros, OwnedAdmission, Result, combine};

use crate::sweep::{SweepPosition, SweptPage};

/// The callers of a round.
pub(crate) type Callers = combine::Round<Job, Result<Done>>;

/// One call that waits for the writer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) task: Task,
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

impl Task {
    /// Copies an admission.
    ///
    /// # Errors
    /// `invalid_request` when there is no charge.
    pub(crate) fn admit(admission: &Admission<'_>, reading: Micros) -> Result<Self> {
        if admission.charges().is_empty() {
            let message = "is empty; accepted: at least one charge";
            return Err(Error::invalid("charges", message).not_sent());
        }
        Ok(Self::Admit(admission.into(), reading))
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

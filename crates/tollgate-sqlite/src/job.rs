//! What a caller asks for, owned: its future may go away while the writer decides.

use tokio::sync::oneshot;
use tollgate_core::store::{Evidence, TimeSource};
use tollgate_core::{Admission, Error, Micros, OwnedAdmission, Result};

use crate::sweep::{Page, Place};

/// What the writer does.
#[derive(Debug)]
pub(crate) enum Task {
    /// Decide.
    Admit(Job),
    /// Forget this key.
    Reset(String, oneshot::Sender<Result<()>>),
    /// Reclaim what has expired at an instant, one page from here.
    Sweep(Place, Micros, oneshot::Sender<Result<Page>>),
}

/// One admission that waits for its answer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) admission: OwnedAdmission,
    pub(crate) at: TimeSource,
    reply: oneshot::Sender<Result<Evidence>>,
}

impl Job {
    /// Copies an admission; the receiver gets its answer.
    ///
    /// # Errors
    /// `invalid_request` when there is no charge.
    pub(crate) fn new(
        admission: &Admission<'_>,
        at: TimeSource,
    ) -> Result<(Self, oneshot::Receiver<Result<Evidence>>)> {
        if admission.charges().is_empty() {
            return Err(Error::invalid("charges", "are none; accepted: one or more").not_sent());
        }
        let (reply, answer) = oneshot::channel();
        Ok((Self { admission: admission.into(), at, reply }, answer))
    }

    /// Whether the caller is still there. One that is gone is not charged.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.reply.is_closed()
    }

    pub(crate) fn answer(self, answer: Result<Evidence>) {
        // Nobody is there to hear it if the caller has gone.
        let _ = self.reply.send(answer);
    }
}

impl Task {
    /// Says that it could not be done.
    pub(crate) fn refuse(self, error: &Error) {
        match self {
            Self::Admit(job) => job.answer(Err(error.clone())),
            // Nobody is there to hear it if the caller has gone.
            Self::Reset(_, reply) => drop(reply.send(Err(error.clone()))),
            Self::Sweep(_, _, reply) => drop(reply.send(Err(error.clone()))),
        }
    }

    /// Whether somebody still waits for it.
    pub(crate) fn is_waiting(&self) -> bool {
        match self {
            Self::Admit(job) => job.is_waiting(),
            Self::Reset(_, reply) => !reply.is_closed(),
            Self::Sweep(_, _, reply) => !reply.is_closed(),
        }
    }
}

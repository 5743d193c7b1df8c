//! Admissions that own what they name, for stores that decide elsewhere than in the caller's
//! future.
//!
//! A caller's future may be dropped while a worker, a thread or another caller decides for it, so
//! its admission is copied first. Copying a [`Limit`] counts references; only texts are allocated.

use crate::charge::{Admission, Charge, Operation, RequestId};
use crate::cost::Cost;
use crate::limit::Limit;
use crate::time::Micros;

/// A charge without a lifetime.
#[derive(Clone, Debug)]
pub struct OwnedCharge {
    limit: Limit,
    subject: Box<str>,
    cost: Cost,
    operation: Operation,
}

impl OwnedCharge {
    /// The charge that was copied.
    #[must_use]
    pub fn as_charge(&self) -> Charge<'_> {
        let Self { limit, subject, cost, operation } = self;
        Charge { limit, subject, cost: *cost, operation: *operation }
    }
}

impl From<&Charge<'_>> for OwnedCharge {
    fn from(charge: &Charge<'_>) -> Self {
        let limit = charge.limit.clone();
        Self {
            limit,
            subject: charge.subject.into(),
            cost: charge.cost,
            operation: charge.operation,
        }
    }
}

/// An admission without a lifetime.
#[derive(Clone, Debug)]
pub struct OwnedAdmission {
    charges: Vec<OwnedCharge>,
    request_id: Option<(Box<str>, Micros)>,
}

impl OwnedAdmission {
    /// The charges that were copied.
    #[must_use]
    pub fn charges(&self) -> Vec<Charge<'_>> {
        self.charges.iter().map(OwnedCharge::as_charge).collect()
    }

    /// The charges that were copied, one by one.
    pub(crate) fn each_charge(&self) -> impl Iterator<Item = Charge<'_>> {
        self.charges.iter().map(OwnedCharge::as_charge)
    }

    /// The admission that was copied, of these [`charges`](Self::charges).
    #[must_use]
    pub fn of<'a>(&'a self, charges: &'a [Charge<'a>]) -> Admission<'a> {
        let mut admission = Admission::of(charges);
        admission.request_id =
            self.request_id.as_ref().map(|(id, keep)| RequestId { id, keep: *keep });
        admission
    }

    /// Whether it has a request id.
    #[must_use]
    pub const fn has_id(&self) -> bool {
        self.request_id.is_some()
    }
}

impl From<&Admission<'_>> for OwnedAdmission {
    fn from(admission: &Admission<'_>) -> Self {
        Self {
            charges: admission.charges().iter().map(OwnedCharge::from).collect(),
            request_id: admission.request_id.map(|request| (request.id.into(), request.keep)),
        }
    }
}

//! Admissions that own what they name, for stores that decide elsewhere than in the caller's future.
//!
//! A caller's future may go away while a worker, a thread or a neighbour decides for it, so that what
//! it asks for is copied first. Copying a [`Limit`] counts references; only texts are allocated.

use crate::charge::{Act, Admission, Charge, Limit, Once};
use crate::cost::Cost;
use crate::time::Micros;

/// A charge without a lifetime.
#[derive(Clone, Debug)]
pub struct OwnedCharge {
    limit: Limit,
    subject: Box<str>,
    cost: Cost,
    act: Act,
}

impl OwnedCharge {
    /// The charge that was copied.
    #[must_use]
    pub fn as_charge(&self) -> Charge<'_> {
        Charge { limit: &self.limit, subject: &self.subject, cost: self.cost, act: self.act }
    }
}

impl From<&Charge<'_>> for OwnedCharge {
    fn from(charge: &Charge<'_>) -> Self {
        let limit = charge.limit.clone();
        Self { limit, subject: charge.subject.into(), cost: charge.cost, act: charge.act }
    }
}

/// An admission without a lifetime.
#[derive(Clone, Debug)]
pub struct OwnedAdmission {
    charges: Vec<OwnedCharge>,
    once: Option<(Box<str>, Micros)>,
}

impl OwnedAdmission {
    /// The charges that were copied.
    #[must_use]
    pub fn charges(&self) -> Vec<Charge<'_>> {
        self.charges.iter().map(OwnedCharge::as_charge).collect()
    }

    /// The admission that was copied, of these [`charges`](Self::charges).
    #[must_use]
    pub fn of<'a>(&'a self, charges: &'a [Charge<'a>]) -> Admission<'a> {
        let once = self.once.as_ref().map(|(id, keep)| Once { id, keep: *keep });
        Admission { charges, once }
    }

    /// Whether it has a request id.
    #[must_use]
    pub const fn has_id(&self) -> bool {
        self.once.is_some()
    }
}

impl From<&Admission<'_>> for OwnedAdmission {
    fn from(admission: &Admission<'_>) -> Self {
        Self {
            charges: admission.charges.iter().map(OwnedCharge::from).collect(),
            once: admission.once.map(|once| (once.id.into(), once.keep)),
        }
    }
}

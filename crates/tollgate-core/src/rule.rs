//! An algorithm ready for use: shared, with what every check needs computed once.

use core::fmt;
use core::ops::Deref;
use std::sync::Arc;

use crate::algorithm::{Algorithm, PackedSchedule};
use crate::state::QuotaId;

/// A shared algorithm. Cheap to clone.
#[derive(Clone)]
pub struct Rule {
    algorithm: Arc<dyn Algorithm>,
    quota_id: QuotaId,
    quota_tag: u64,
    packed_schedule: Option<PackedSchedule>,
}

impl Rule {
    /// Shares an algorithm.
    pub fn new(algorithm: impl Algorithm + 'static) -> Self {
        Self::from_arc(Arc::new(algorithm))
    }

    /// Uses an algorithm that is shared already.
    #[must_use]
    pub fn from_arc(algorithm: Arc<dyn Algorithm>) -> Self {
        let quota_id = algorithm.quota_id();
        let packed_schedule = algorithm.packed_schedule();
        Self { quota_id, quota_tag: tag_of(quota_id.family()), packed_schedule, algorithm }
    }

    /// Identifies the quota; stored with every state.
    #[must_use]
    #[inline]
    pub fn quota_id(&self) -> QuotaId {
        self.quota_id
    }

    /// What decides the meaning of the words, in 64 bits, for tables that have no room for more.
    /// Never 0.
    #[inline]
    pub(crate) fn quota_tag(&self) -> u64 {
        self.quota_tag
    }

    /// The one-word form of the algorithm, if it has one.
    #[inline]
    pub(crate) fn packed_schedule(&self) -> Option<&PackedSchedule> {
        self.packed_schedule.as_ref()
    }
}

impl Deref for Rule {
    type Target = dyn Algorithm;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &*self.algorithm
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.algorithm.fmt(f)
    }
}

/// Mixes a quota id into 64 bits (the finaliser of SplitMix64 over each number). Two quotas that
/// share a tag by chance would read each other's states: at 2^-64 per pair of quotas on one key.
fn tag_of(quota_id: QuotaId) -> u64 {
    let mixed = quota_id.0.iter().fold(0x9E37_79B9_7F4A_7C15_u64, |hash, number| {
        let mut z = (hash ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    });
    mixed.max(1)
}

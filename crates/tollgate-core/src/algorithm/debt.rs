//! What a key owes.

use crate::time::Micros;

/// What a key owes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// Units still counted, rounded up.
    pub units: u64,
    /// The instant at which they are owed: the later of now and what the state has seen.
    pub seen: Micros,
}

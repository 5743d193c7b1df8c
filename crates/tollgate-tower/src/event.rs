//! What a layer tells whoever wants to log or count.

use tollgate::{Decision, Error};

use crate::extract::Unkeyed;

/// Something happened to a request. A decision without the store says so in `degraded`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// It passed.
    Allowed(&'a Decision),
    /// It was refused.
    Refused(&'a Decision),
    /// It would have been refused, and passed because the layer only watches.
    Shadowed(&'a Decision),
    /// No decision could be made. Refused, unless the layer only watches.
    Undecided(&'a Error),
    /// It could not be charged to anybody. Refused, unless the layer only watches.
    Unkeyed(&'a Unkeyed),
    /// What it used could not be settled afterwards: it stays charged as it was admitted.
    Unsettled(&'a Error),
}

//! Events of a layer, for logs and metrics.

use tollgate::{Decision, Error};

use crate::extract::ExtractError;

/// What happened to a request. A decision without the store has the field `degraded`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// It was allowed.
    Allowed(&'a Decision),
    /// It was refused.
    Refused(&'a Decision),
    /// It would have been refused, and was forwarded because the layer is in shadow mode.
    Shadowed(&'a Decision),
    /// No decision could be made. Refused, unless the layer is in shadow mode.
    Undecided(&'a Error),
    /// It has no subject to charge. Refused, unless the layer is in shadow mode.
    NoSubject(&'a ExtractError),
    /// Its cost could not be settled after the response: it stays charged as it was admitted.
    Unsettled(&'a Error),
}

//! What tests of a store do again and again: charge a unit, and look how many were spent.

use tollgate_core::store::{Store, TimeSource};
use tollgate_core::{Admission, Charge, Cost, RequestId, Result};

use crate::derive::decisions_of;

/// Whether an admission was allowed.
///
/// # Errors
/// What the store says; `corrupt_state` when its evidence does not fit.
pub async fn admitted<S: Store>(
    store: &S,
    admission: &Admission<'_>,
    at: TimeSource,
) -> Result<bool> {
    let outcome = store.admit(admission, at).await?;
    Ok(decisions_of(admission, &outcome)?.admitted)
}

/// Makes a charge; whether it was allowed.
///
/// # Errors
/// As [`admitted`].
pub async fn take<S: Store>(store: &S, charge: Charge<'_>, at: TimeSource) -> Result<bool> {
    admitted(store, &Admission::of(&[charge]), at).await
}

/// Makes a charge under a request id; whether it was allowed.
///
/// # Errors
/// As [`admitted`]; `invalid_request` when the id is none.
pub async fn take_once<S: Store>(
    store: &S,
    charge: Charge<'_>,
    id: &str,
    at: TimeSource,
) -> Result<bool> {
    admitted(store, &Admission::of(&[charge]).request_id(RequestId::new(id)?), at).await
}

/// Units that are spent on the key of a charge.
///
/// # Errors
/// What the store says.
pub async fn spent<S: Store>(store: &S, charge: Charge<'_>, at: TimeSource) -> Result<u64> {
    let loaded = store.load(&[charge], at).await?;
    let state = loaded.states.into_iter().next().flatten();
    let words = state.map(|state| state.words.to_vec()).unwrap_or_default();
    let look = charge.rule().peek(&words, loaded.now, Cost::ONE);
    Ok(look.limit - look.remaining)
}

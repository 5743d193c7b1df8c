//! Helpers for tests of a store: charge a unit, and count the units that were spent.

use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Charge, Cost, RequestId, Result};

use crate::derive::decisions_of;

/// Whether an admission was allowed.
///
/// # Errors
/// What the store says; `corrupt_state` when its evidence does not fit.
pub async fn admitted<S: Store>(
    store: &S,
    admission: &Admission<'_>,
    cx: CallContext<'_>,
) -> Result<bool> {
    let outcome = store.admit(admission, cx).await?;
    Ok(decisions_of(admission, &outcome)?.admitted)
}

/// Makes a charge; whether it was allowed.
///
/// # Errors
/// As [`admitted`].
pub async fn take<S: Store>(store: &S, charge: Charge<'_>, cx: CallContext<'_>) -> Result<bool> {
    admitted(store, &Admission::of(&[charge]), cx).await
}

/// Makes a charge under a request id; whether it was allowed.
///
/// # Errors
/// As [`admitted`]; `invalid_request` when the id is none.
pub async fn take_once<S: Store>(
    store: &S,
    charge: Charge<'_>,
    id: &str,
    cx: CallContext<'_>,
) -> Result<bool> {
    admitted(store, &Admission::of(&[charge]).request_id(RequestId::new(id)?), cx).await
}

/// Units that are spent on the key of a charge.
///
/// # Errors
/// What the store says.
pub async fn spent<S: Store>(store: &S, charge: Charge<'_>, cx: CallContext<'_>) -> Result<u64> {
    let loaded = store.load(&[charge], cx).await?;
    let state = loaded.states.into_iter().next().flatten();
    let words = state.map(|state| state.words.to_vec()).unwrap_or_default();
    let look = charge.rule().peek(&words, loaded.now, Cost::ONE);
    Ok(look.limit - look.remaining)
}

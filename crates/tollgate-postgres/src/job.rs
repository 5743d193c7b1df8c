//! One admission that waits for a round, owned: its caller may be cancelled while a worker decides.

use core::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::record::{name, request_id_key};
use tollgate_core::store::{CallContext, Owner, TimeSource};
use tollgate_core::{Admission, Error, Key, OwnedAdmission, Result};

use crate::rows::without_nul;

/// PostgreSQL cannot index a row of more than about 2,700 bytes. A request id adds up to 200 bytes
/// to its key.
const KEY_MAX_BYTES: usize = 2_000;

/// One admission that waits for its answer.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) admission: OwnedAdmission,
    pub(crate) time: TimeSource,
    /// The policy and the key with which it shares the places of a round.
    pub(crate) owner: Owner,
    /// The text of each key as PostgreSQL stores it, at least one.
    pub(crate) keys: Vec<String>,
    /// The name of the record of its request id.
    pub(crate) record: Option<String>,
    /// When the caller stops waiting.
    pub(crate) deadline: Option<Instant>,
}

impl Job {
    /// Copies an admission.
    ///
    /// # Errors
    /// `invalid_request` when there is no charge, or a key is too long.
    pub(crate) fn new(admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Self> {
        let Some(first) = admission.charges().first() else {
            let message = "is empty; accepted: at least one charge";
            return Err(Error::invalid("charges", message).not_sent());
        };
        let keys = admission.charges().iter().map(|charge| text_of(charge.key()));
        let record = request_id_key(admission).map(|id| name(first.key(), &id.id));
        let after = |left| Instant::now().checked_add(Duration::from_micros(left));
        Ok(Self {
            keys: keys.collect::<Result<_>>()?,
            record: record.map(|name| without_nul(&name).into_owned()),
            time: cx.time(),
            owner: Owner::of(first.key()),
            deadline: cx.time_left().and_then(after),
            admission: admission.into(),
        })
    }

    /// The text of the first key.
    pub(crate) fn first_key(&self) -> &str {
        self.keys.first().map(String::as_str).unwrap_or_default()
    }
}

/// The text of a key as PostgreSQL stores it.
///
/// # Errors
/// `invalid_request` when it is too long for an index.
pub(crate) fn text_of(key: Key<'_>) -> Result<String> {
    let text = without_nul(&key.to_text()).into_owned();
    if text.len() > KEY_MAX_BYTES {
        let accepted = format!(
            "has {} bytes with prefix and policy; accepted: up to {KEY_MAX_BYTES}",
            text.len()
        );
        return Err(Error::invalid("key", accepted).not_sent());
    }
    Ok(text)
}

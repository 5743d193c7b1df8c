//! What a caller asks for, owned: its future may go away while a worker decides.

use tokio::sync::oneshot;
use tollgate_core::store::{Evidence, TimeSource, slots_of};
use tollgate_core::{Admission, Charge, Error, Key, Micros, OwnedCharge, Result};

/// PostgreSQL cannot index longer keys.
const KEY_MAX_BYTES: usize = 2_000;

/// One admission that waits for its answer.
#[derive(Debug)]
pub(crate) struct Job {
    charges: Vec<OwnedCharge>,
    /// The key of each charge, as a number of `keys`.
    pub(crate) slots: Vec<usize>,
    /// The text of each key, once.
    pub(crate) keys: Vec<String>,
    pub(crate) mark: Option<Mark>,
    pub(crate) at: TimeSource,
    reply: oneshot::Sender<Result<Evidence>>,
}

/// A request id, with what it is bound to.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) id: String,
    pub(crate) payload: String,
    pub(crate) keep: Micros,
}

impl Job {
    /// Copies an admission; the receiver gets its answer.
    ///
    /// # Errors
    /// `invalid_request` when a key is too long or there is none.
    pub(crate) fn new(
        admission: &Admission<'_>,
        at: TimeSource,
    ) -> Result<(Self, oneshot::Receiver<Result<Evidence>>)> {
        if admission.charges().is_empty() {
            return Err(Error::invalid("charges", "are none; accepted: one or more").not_sent());
        }
        let (slots, keys) = slots_of(admission.charges());
        let keys = keys.into_iter().map(text_of).collect::<Result<_>>()?;
        let mark = admission.request_id.map(|once| Mark {
            id: without_nul(once.id.replace('%', "%25")),
            payload: without_nul(admission.payload()),
            keep: once.keep,
        });
        let charges = admission.charges().iter().map(OwnedCharge::from).collect();
        let (reply, answer) = oneshot::channel();
        Ok((Self { charges, slots, keys, mark, at, reply }, answer))
    }

    pub(crate) fn charges(&self) -> Vec<Charge<'_>> {
        self.charges.iter().map(OwnedCharge::as_charge).collect()
    }

    /// The text of the first key.
    pub(crate) fn home(&self) -> &str {
        self.keys.first().map(String::as_str).unwrap_or_default()
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

/// The text of a key as PostgreSQL keeps it.
///
/// # Errors
/// `invalid_request` when it is too long to be indexed.
pub(crate) fn text_of(key: Key<'_>) -> Result<String> {
    let text = without_nul(key.to_text());
    if text.len() > KEY_MAX_BYTES {
        let accepted =
            format!("has {} bytes with its names; accepted: up to {KEY_MAX_BYTES}", text.len());
        return Err(Error::invalid("key", accepted).not_sent());
    }
    Ok(text)
}

/// The one character that no text of PostgreSQL may hold becomes `%00`, which a percent-encoded
/// text does not hold otherwise: no two texts become one.
fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "%00") } else { text }
}

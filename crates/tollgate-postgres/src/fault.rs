//! What an error of the driver means: an outage, a conflict, or a mistake of the set-up.
//!
//! Only an outage may reach a failure mode that admits. Contention is never one, because an attacker
//! can cause it; neither is a table that is missing, because then nothing would ever be limited.
//! Messages carry the code of PostgreSQL and no details, which may hold keys.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use tollgate_core::{Code, Error};

/// Why a round did not come to its end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The server undid the round because of others: it may be run again.
    Conflict,
    /// The connection is lost. What was sent last may have happened or not.
    Lost(Error),
    /// The server said no, and did nothing.
    Refused(Error),
}

impl Fault {
    /// The error, for a round that is not run again.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Conflict => exhausted(),
            Self::Lost(error) | Self::Refused(error) => error,
        }
    }

    /// Why a transaction that is to write could not be begun. A standby says that it does not know how.
    pub(crate) fn at_begin(error: tokio_postgres::Error) -> Self {
        if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) {
            let message = "PostgreSQL is a standby here, which cannot write";
            return Self::Lost(Error::new(Code::StoreUnavailable, message));
        }
        Self::from(error)
    }

    pub(crate) fn timeout() -> Self {
        Self::Lost(Error::new(Code::Timeout, "PostgreSQL did not answer in time"))
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(state) = error.code() else {
            return Self::Lost(lost(&error));
        };
        if is_conflict(state) {
            return Self::Conflict;
        }
        let (code, text) = (code_of(state), state.code());
        let refusal =
            Error::new(code, format!("PostgreSQL reported {text}{}", said_at_connect(&error)));
        // A server that ends a session may have been at any point.
        if code == Code::StoreUnavailable { Self::Lost(refusal) } else { Self::Refused(refusal) }
    }
}

/// Others were in the way, or created the same key first.
fn is_conflict(state: &SqlState) -> bool {
    let conflicts = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    conflicts.contains(state)
}

fn code_of(state: &SqlState) -> Code {
    match state.code().get(..2).unwrap_or_default() {
        // The statement took too long.
        _ if *state == SqlState::QUERY_CANCELED => Code::Timeout,
        // Connections, read-only standbys, resources, shutdown, I/O, bugs: the server cannot answer.
        "08" | "25" | "40" | "53" | "57" | "58" | "XX" => Code::StoreUnavailable,
        // A value that the tables cannot hold.
        "22" | "23" | "54" => Code::CorruptState,
        // Authentication, no such database, schema or table, no permission, and whatever else was
        // set up otherwise than the store needs it.
        _ => Code::ConfigInvalid,
    }
}

/// Refusals to connect say why without naming keys: there are none yet.
fn said_at_connect(error: &tokio_postgres::Error) -> String {
    let class = error.code().and_then(|state| state.code().get(..2));
    match (class, error.as_db_error()) {
        (Some("28" | "3D" | "53" | "57"), Some(said)) => format!(": {}", said.message()),
        _ => String::new(),
    }
}

fn lost(error: &tokio_postgres::Error) -> Error {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Error::new(Code::StoreUnavailable, format!("no connection to PostgreSQL: {error}{cause}"))
}

/// Every attempt met a conflict: nothing was charged.
pub(crate) fn exhausted() -> Error {
    Error::new(Code::ConflictExhausted, "other writers kept the keys busy; nothing was charged")
}

pub(crate) fn closed() -> Error {
    Error::new(Code::StoreUnavailable, "the store was closed").not_sent()
}

pub(crate) fn corrupt() -> Error {
    Error::new(
        Code::CorruptState,
        "a stored value cannot be read; reset the key to start it afresh",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_cannot_answer_is_an_outage() {
        let outages =
            ["08006", "25006", "25P03", "53300", "57P01", "57P03", "57014", "58030", "XX000"];
        for state in outages {
            assert!(code_of(&SqlState::from_code(state)).is_outage(), "{state}");
        }
        let others =
            ["22021", "23502", "28P01", "3D000", "42501", "42P01", "54000", "P0001", "0A000"];
        for state in others {
            assert!(!code_of(&SqlState::from_code(state)).is_outage(), "{state}");
        }
        for state in ["40001", "40P01", "23505", "55P03"] {
            assert!(is_conflict(&SqlState::from_code(state)), "{state}");
        }
    }
}

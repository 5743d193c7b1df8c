//! Classifies driver errors: an outage, a conflict, or a mistake in the configuration.
//!
//! Only an outage may reach an outage mode that admits. A conflict is not an outage, because an
//! attacker can cause one. A missing table is not an outage either: every request would then be
//! admitted for as long as it is missing. Messages carry the SQLSTATE and no details, which may
//! contain keys.

use std::error::Error as _;

use tokio_postgres::error::SqlState;
use tollgate_core::{Code, Error};

/// Why a statement or a transaction failed.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// The server rolled the transaction back because of another one. It may be run again.
    Conflict,
    /// The connection is lost. The outcome of what was sent last is unknown.
    ConnectionLost(Error),
    /// The server rejected the statement and changed nothing.
    Rejected(Error),
}

impl QueryError {
    /// The error for callers, when nothing is retried.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Conflict => conflict_exhausted(),
            Self::ConnectionLost(error) | Self::Rejected(error) => error,
        }
    }

    /// Why `BEGIN … READ WRITE` failed. A hot standby answers `feature_not_supported`.
    pub(crate) fn at_begin(error: tokio_postgres::Error) -> Self {
        if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) {
            let message = "the PostgreSQL server is a standby, which cannot write";
            return Self::ConnectionLost(Error::new(Code::StoreUnavailable, message));
        }
        Self::from(error)
    }

    pub(crate) fn timeout() -> Self {
        Self::ConnectionLost(Error::new(Code::Timeout, "PostgreSQL did not answer in time"))
    }
}

impl From<tokio_postgres::Error> for QueryError {
    fn from(error: tokio_postgres::Error) -> Self {
        let Some(state) = error.code() else {
            return Self::ConnectionLost(no_connection(&error));
        };
        if is_conflict(state) {
            return Self::Conflict;
        }
        let (code, text) = (code_of(state), state.code());
        let reported =
            Error::new(code, format!("PostgreSQL reported {text}{}", connect_detail(&error)));
        // A server that terminates a session may do so at any point of a transaction.
        if code == Code::StoreUnavailable {
            Self::ConnectionLost(reported)
        } else {
            Self::Rejected(reported)
        }
    }
}

/// Another transaction held a lock for too long, or inserted the same key first.
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
        // `statement_timeout`.
        _ if *state == SqlState::QUERY_CANCELED => Code::Timeout,
        // The disk of the server, or the bound of a file. The transaction was rolled back.
        _ if *state == SqlState::DISK_FULL => Code::StoreFull,
        // Connections, read-only standbys, other resources, shutdown, I/O, internal errors.
        "08" | "25" | "40" | "53" | "57" | "58" | "XX" => Code::StoreUnavailable,
        // A value that the tables cannot store.
        "22" | "23" | "54" => Code::CorruptState,
        // Authentication; no such database, schema or table; no permission; any other mistake of
        // the configuration.
        _ => Code::ConfigInvalid,
    }
}

/// The message of a server that refuses a connection. It cannot contain keys: none was sent yet.
fn connect_detail(error: &tokio_postgres::Error) -> String {
    let class = error.code().and_then(|state| state.code().get(..2));
    match (class, error.as_db_error()) {
        (Some("28" | "3D" | "53" | "57"), Some(reported)) => format!(": {}", reported.message()),
        _ => String::new(),
    }
}

fn no_connection(error: &tokio_postgres::Error) -> Error {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Error::new(Code::StoreUnavailable, format!("no connection to PostgreSQL: {error}{cause}"))
}

/// Every attempt met a conflict. Nothing was charged.
pub(crate) fn conflict_exhausted() -> Error {
    let message =
        "other transactions held the keys until the retries were used up; nothing was charged";
    Error::new(Code::ConflictExhausted, message)
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
        assert_eq!(code_of(&SqlState::from_code("53100")), Code::StoreFull);
        for state in ["40001", "40P01", "23505", "55P03"] {
            assert!(is_conflict(&SqlState::from_code(state)), "{state}");
        }
    }
}

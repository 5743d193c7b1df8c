//! Errors of the runtime as errors of a store.

use tollgate_core::{Code, Error};

/// The longest part of a foreign message that is kept.
const MESSAGE_MAX_CHARS: usize = 200;

/// The backend failed. Whether it has written is unknown.
pub(crate) fn unavailable(what: &str, error: &worker::Error) -> Error {
    let message: String = error.to_string().chars().take(MESSAGE_MAX_CHARS).collect();
    Error::new(Code::StoreUnavailable, format!("{what}: {message}"))
}

/// The backend answered something that this crate does not write.
pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(Code::CorruptState, format!("{what} cannot be read"))
}

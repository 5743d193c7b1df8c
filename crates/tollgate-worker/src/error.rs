//! Errors of the runtime as errors of a store.

use tollgate_core::{Code, Error};
use worker::js_sys::Reflect;
use worker::wasm_bindgen::JsValue;

/// The longest part of a foreign message that is kept.
const MESSAGE_MAX_CHARS: usize = 200;
/// How the messages begin by which a Durable Object and D1 refuse a call that waited with too many
/// others. The call was never begun.
const OVERLOADS: [&str; 2] = ["Durable Object is overloaded.", "D1 DB is overloaded."];
/// The backend failed. Whether it has written is unknown.
pub(crate) fn unavailable(what: &str, error: &worker::Error) -> Error {
    with(Code::StoreUnavailable, what, error)
}

/// A call to an object or a database failed. One that was refused as one of too many has charged
/// nothing; whether any other has written is unknown.
pub(crate) fn call_failed(what: &str, error: &worker::Error) -> Error {
    if has_overload_mark(error) || is_overload(&error.to_string()) {
        return with(Code::QueueFull, what, error);
    }
    unavailable(what, error)
}

fn with(code: Code, what: &str, error: &worker::Error) -> Error {
    let message: String = error.to_string().chars().take(MESSAGE_MAX_CHARS).collect();
    Error::new(code, format!("{what}: {message}"))
}

/// The backend answered something that this crate does not write.
pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(Code::CorruptState, format!("{what} cannot be read"))
}

/// Whether the runtime marks the error as that of an object that is overloaded.
fn has_overload_mark(error: &worker::Error) -> bool {
    let worker::Error::UnknownJsError { original, .. } = error else { return false };
    let mark = Reflect::get(original, &JsValue::from_str("overloaded"));
    mark.is_ok_and(|mark| mark.is_truthy())
}

fn is_overload(message: &str) -> bool {
    OVERLOADS.iter().any(|overload| message.contains(overload))
}

#[cfg(test)]
mod tests {
    use tollgate_core::Code;
    use worker::Error::RustError;

    use super::call_failed;

    fn code(message: &str) -> Code {
        call_failed("it failed", &RustError(message.to_owned())).code()
    }

    #[test]
    fn a_call_that_was_refused_as_one_of_too_many_is_no_outage() {
        for message in [
            "Error: Durable Object is overloaded. Requests queued for too long.",
            "Error: Durable Object is overloaded. Too many requests queued.",
            "Error: Durable Object is overloaded. Too much data queued.",
            "Error: Durable Object is overloaded. Too many requests for the same object within a \
             10 second window.",
            "Error: D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
            "Error: D1_ERROR: D1 DB is overloaded. Too many requests queued.",
        ] {
            assert_eq!(code(message), Code::QueueFull, "{message}");
        }
    }

    #[test]
    fn what_may_have_been_written_is_an_outage() {
        for message in [
            "Error: Network connection lost.",
            "Error: D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be \
             reset.",
            "Error: Durable Object reset because its code was updated.",
            "Error: internal error; reference = 0123",
            "Error: the service is overloaded",
        ] {
            assert_eq!(code(message), Code::StoreUnavailable, "{message}");
        }
    }
}

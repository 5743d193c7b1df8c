//! Errors of the runtime as errors of a store.

use tollgate_core::{Code, Error};
use worker::js_sys::Reflect;
use worker::wasm_bindgen::JsValue;

/// The longest part of a foreign message that is kept.
const MESSAGE_MAX_CHARS: usize = 200;
/// How the messages begin by which a Durable Object and D1 refuse a call that waited with too many
/// others. The call was never begun.
const OVERLOADS: [&str; 2] = ["Durable Object is overloaded.", "D1 DB is overloaded."];
/// What messages contain by which Cloudflare refuses a call because a database is full, or because
/// the account may store, read or write no more on that day. Callers can bring that about, so it is
/// no outage.
const USED_UP: [&str; 6] = [
    "SQLITE_FULL",
    "Exceeded maximum DB size",
    "maximum account storage limit",
    "free tier daily row",
    "in Durable Objects free tier",
    "limit exceeded for the day",
];

/// The backend failed. Whether it has written is unknown, unless its storage is used up.
pub(crate) fn unavailable(what: &str, error: &worker::Error) -> Error {
    let text = error.to_string();
    with(code_of(&text), what, &text)
}

/// A call to an object or a database failed. One that was refused as one of too many has charged
/// nothing; whether any other has written is unknown.
pub(crate) fn call_failed(what: &str, error: &worker::Error) -> Error {
    let text = error.to_string();
    let is_refused = has_overload_mark(error) || OVERLOADS.iter().any(|one| text.contains(one));
    with(if is_refused { Code::QueueFull } else { code_of(&text) }, what, &text)
}

fn code_of(text: &str) -> Code {
    let is_used_up = USED_UP.iter().any(|one| text.contains(one));
    if is_used_up { Code::StoreFull } else { Code::StoreUnavailable }
}

fn with(code: Code, what: &str, text: &str) -> Error {
    let text: String = text.chars().take(MESSAGE_MAX_CHARS).collect();
    Error::new(code, format!("{what}: {text}"))
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
    fn storage_that_is_used_up_is_no_outage() {
        for message in [
            "Error: database or disk is full: SQLITE_FULL",
            "Error: Exceeded allowed rows written in Durable Objects free tier.",
            "Error: Exceeded allowed rows read in Durable Objects free tier.",
            "Error: D1_ERROR: Exceeded maximum DB size.",
            "Error: D1_ERROR: Your account has exceeded D1's maximum account storage limit, please \
             contact Cloudflare to raise your limit",
            "Error: D1_ERROR: Your account has exceeded D1's free tier daily row write limit. \
             Upgrade to a paid plan or wait until tomorrow (midnight UTC) to continue.",
            "js error: JsValue(Error: KV put() limit exceeded for the day.",
        ] {
            assert_eq!(code(message), Code::StoreFull, "{message}");
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

//! Ends an object that panics.
//!
//! The runtime does not notice a panic: it would wait for the answer of the object for ever, and so
//! would every caller. An object that is aborted fails all of its calls at once. The next call
//! makes it anew over its storage, in a new WebAssembly instance.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use std::panic;
use std::rc::Rc;
use std::sync::Once;

use worker::State;
use worker::js_sys::{Function, Reflect};
use worker::wasm_bindgen::{JsCast as _, JsValue};

/// The object itself, as the runtime knows it.
pub(super) type ThisObject = Rc<JsValue>;

const REASON: &str = "the Durable Object panicked";

thread_local! {
    /// The object whose code runs now.
    static RUNNING: RefCell<Option<ThisObject>> = const { RefCell::new(None) };
}

/// Runs work of an object. If it panics, the object is aborted: its callers get an error at once,
/// and what is stored stays.
///
/// [`LimitsObject`](super::LimitsObject) does so for itself. An object of your own that keeps an
/// [`ObjectStore`](super::ObjectStore) wraps its `fetch` in it.
pub async fn abort_on_panic<T>(state: &State, work: impl Future<Output = T>) -> T {
    run(&this_object(state), work).await
}

pub(super) fn this_object(state: &State) -> ThisObject {
    let object: &JsValue = state.as_raw().as_ref();
    Rc::new(object.clone())
}

/// Runs work of an object, which is aborted if it panics.
pub(super) async fn run<T>(object: &ThisObject, work: impl Future<Output = T>) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            // It tells the entry of the Worker to replace the instance.
            before(info);
            abort_running();
        }));
    });
    let mut work = pin!(work);
    poll_fn(|context| {
        let outer = RUNNING.replace(Some(Rc::clone(object)));
        let polled = work.as_mut().poll(context);
        RUNNING.set(outer);
        polled
    })
    .await
}

/// Aborts the object whose code runs. The runtime ends that code at once, so the panic does not
/// trap: after a trap, wasm-bindgen would run callbacks of the old instance in the new one.
fn abort_running() {
    let Some(object) = RUNNING.take() else { return };
    let abort = Reflect::get(&object, &JsValue::from_str("abort"));
    if let Some(abort) = abort.ok().and_then(|abort| abort.dyn_into::<Function>().ok()) {
        let _ = abort.call1(&object, &JsValue::from_str(REASON));
    }
}

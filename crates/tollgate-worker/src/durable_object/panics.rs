//! Ends an object that panics.
//!
//! The runtime does not notice a panic: it would wait for the answer of the object for ever, and so
//! would every caller. An object that is aborted fails all of its calls at once. The next call
//! makes it anew over its storage, in a new WebAssembly instance.
//!
//! Objects share an instance with each other and with Workers. What is under way in them when the
//! instance is replaced never ends either, so each call has a bound on its time.

use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use std::panic;
use std::rc::Rc;
use std::sync::Once;

use worker::State;
use worker::js_sys::{Function, Reflect, global};
use worker::wasm_bindgen::{JsCast as _, JsValue};

/// The object itself, as the runtime knows it.
pub(super) type ThisObject = Rc<JsValue>;

const PANICKED: &str = "the Durable Object panicked";
const LOST: &str = "a call to the Durable Object did not end";
/// How long a call may take. A decision takes some milliseconds.
const CALL_MAX_MS: u32 = 10_000;

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

/// Runs a call of an object, which is aborted if the call panics or does not end.
pub(super) async fn run_in_time<T>(object: &ThisObject, call: impl Future<Output = T>) -> T {
    let _timer = CallTimer::start(object);
    run(object, call).await
}

/// Runs work of an object, which is aborted if it panics.
async fn run<T>(object: &ThisObject, work: impl Future<Output = T>) -> T {
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
    if let Some(abort) = function(&object, "abort") {
        let _ = abort.call1(&object, &JsValue::from_str(PANICKED));
    }
}

/// Aborts the object unless it is dropped in time. What runs then is a function of the runtime and
/// no code of this instance, which may have been replaced.
struct CallTimer(JsValue);

impl CallTimer {
    fn start(object: &JsValue) -> Option<Self> {
        let abort = function(object, "abort")?.bind1(object, &JsValue::from_str(LOST));
        let set = function(&global(), "setTimeout")?;
        set.call2(&JsValue::UNDEFINED, &abort, &JsValue::from(CALL_MAX_MS)).ok().map(Self)
    }
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        if let Some(clear) = function(&global(), "clearTimeout") {
            let _ = clear.call1(&JsValue::UNDEFINED, &self.0);
        }
    }
}

fn function(of: &JsValue, name: &str) -> Option<Function> {
    Reflect::get(of, &JsValue::from_str(name)).ok()?.dyn_into().ok()
}

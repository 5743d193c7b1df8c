//! The core of Tollgate: algorithms, the store contract, the memory store, and the limiter.
//!
//! One idea carries everything: a decision is a pure function of (quota, state, now, cost), and a
//! store is anything that can apply such a step atomically to a key. Algorithms depend on no store,
//! stores contain no rate-limiting arithmetic, and time, randomness and I/O enter only at the
//! edges. No runtime, no floating point, no unsafe code; builds for `wasm32-unknown-unknown`.
//!
//! Applications depend on the `tollgate` crate, which re-exports this one. Depend on this crate
//! alone to write a store or an algorithm.

pub mod algorithm;
mod charge;
pub mod clock;
pub mod combine;
mod cost;
mod decision;
mod error;
mod key;
mod limit;
pub mod limiter;
mod maybe_send;
mod outage;
mod owned;
mod quota;
mod rule;
mod settled;
mod state;
pub mod store;
pub mod text;
mod time;

pub use charge::{Admission, Charge, Operation, Receipt, RequestId};
#[cfg(not(target_arch = "wasm32"))]
pub use clock::SystemClock;
pub use clock::{Clock, ManualClock, sleep_until};
pub use cost::Cost;
pub use decision::{Decision, Forecast, OutageMode, Verdict};
pub use error::{Code, Error, Result};
pub use key::{Key, Name};
pub use limit::Limit;
pub use limiter::Limiter;
pub use maybe_send::{BoxFuture, MaybeSend, MaybeSync};
pub use outage::Outage;
pub use owned::{OwnedAdmission, OwnedCharge};
pub use quota::Quota;
pub use rule::Rule;
pub use settled::{Settled, Settlement};
pub use state::{QuotaId, QuotaState, State, Words};
pub use time::{MICROS_MAX, Micros, Now};

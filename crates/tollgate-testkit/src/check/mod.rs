//! Properties of the algorithms: each panics, naming the seed, when it does not hold.
//!
//! The algorithms under test are run beside the reference model over seeded traces and compared
//! field by field; what decisions promise is checked by keeping the promise.

mod admitted;
mod agree;
mod drift;
mod plans;
mod promise;
mod refund;
mod script;

pub(crate) use admitted::Ledger;
pub use admitted::never_over_admits;
pub use agree::{Tally, agrees_with_model, soak};
pub use drift::long_run_rate_is_exact;
pub use plans::plans_agree_with_model;
pub use promise::promises_are_kept;
pub use refund::{refund_at_once_is_complete, refund_is_what_is_left, refund_never_mints};
pub use script::script_agrees;

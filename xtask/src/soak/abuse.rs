//! Clients that attack a release build of the server, each beside a client that makes ordinary
//! requests; then floods of millions of keys. The tests do the same for a second each, and with a
//! hundredth of the keys.

use std::time::Duration;

use crate::run::{TaskResult, cargo, run};

/// How many attacks the time is divided among.
const ATTACKS: u64 = 15;

/// Runs them for `time` in all, over a store: `memory` or `sqlite`.
pub(super) fn soak(time: Duration, store: &str) -> TaskResult {
    let mut test = cargo(&["test", "--release", "--locked", "-p", "tollgate-cli", "--test", "it"]);
    test.args(["abuse::", "--", "--nocapture", "--test-threads=1"]);
    test.env("TOLLGATE_ABUSE_SECONDS", (time.as_secs() / ATTACKS).max(1).to_string());
    test.env("TOLLGATE_ABUSE_STORE", store);
    run(test)
}

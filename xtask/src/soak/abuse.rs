//! Clients that attack a release build of the server, each beside a client that makes ordinary
//! requests; then floods of millions of keys. The tests do the same for a second each, and with a
//! hundredth of the keys.

use std::time::Duration;

use crate::run::{TaskResult, cargo, run};

/// How many attacks the time is divided among.
const ATTACKS: u64 = 15;

/// Runs them for `time` in all, over a store: `memory` or `sqlite`. Or one attack, for all of the
/// time, and no floods.
pub(super) fn soak(time: Duration, store: &str, only: Option<&str>) -> TaskResult {
    let mut test = cargo(&["test", "--release", "--locked", "-p", "tollgate-cli", "--test", "it"]);
    let (tests, attacks) = match only {
        None => ("abuse::", ATTACKS),
        Some(_) => ("abuse::ordinary", 1),
    };
    test.args([tests, "--", "--nocapture", "--test-threads=1"]);
    test.env("TOLLGATE_ABUSE_SECONDS", (time.as_secs() / attacks).max(1).to_string());
    test.env("TOLLGATE_ABUSE_STORE", store);
    test.envs(only.map(|only| ("TOLLGATE_ABUSE_ONLY", only)));
    run(test)
}

//! Policy files: parsed, and if they are valid, put into force.

use std::cell::LazyCell;

use tollgate::Code;
use tollgate_service::engine::CheckRequest;

use super::Fixture;
use crate::config::Config;

/// How many policies of a file are used.
const USED: usize = 8;

thread_local! {
    static FIXTURE: LazyCell<Fixture> = LazyCell::new(Fixture::new);
}

/// The bytes are a file.
///
/// # Panics
/// When a file is refused without a reason, or a policy that was accepted cannot decide.
pub fn policies(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let secret = |name: &str| (name == "TOLLGATE_HASH_SECRET").then(|| "s".to_owned());
    let config = match Config::of_text(&[], secret, Some(("fuzzed.yaml", &text))) {
        Ok(config) => config,
        Err(errors) => {
            assert!(!errors.list.is_empty(), "refused without a reason");
            assert!(errors.list.iter().all(|error| !error.message.is_empty()));
            return;
        }
    };
    FIXTURE.with(|fixture| {
        fixture.app.engine().replace_policies(config.policies);
        let policies = fixture.app.engine().policies();
        for policy in policies.iter().take(USED) {
            let request = CheckRequest::new(policy.name().as_str(), "k");
            let acquired = fixture.run(fixture.app.engine().acquire(request)).map(drop);
            let forecast = fixture.run(fixture.app.engine().forecast(request)).map(drop);
            for failure in [acquired, forecast].into_iter().filter_map(Result::err) {
                // The memory store does not support it, or is full.
                let code = failure.error.code();
                assert!(matches!(code, Code::Unsupported | Code::QueueFull), "{failure}");
            }
        }
    });
}

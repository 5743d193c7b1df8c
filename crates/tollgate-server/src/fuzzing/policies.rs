//! Policy files: read, and if they are valid put to work in the place of those before.

use std::cell::LazyCell;

use tollgate::Code;
use tollgate_service::engine::CheckRequest;

use super::Lab;
use crate::config::Config;

/// How many policies of a file are asked.
const ASKED: usize = 8;

thread_local! {
    static LAB: LazyCell<Lab> = LazyCell::new(Lab::new);
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
    LAB.with(|lab| {
        lab.app.engine().replace_policies(config.policies);
        let policies = lab.app.engine().policies();
        for policy in policies.iter().take(ASKED) {
            let request = CheckRequest::new(policy.name().as_str(), "k");
            let answered = lab.run(lab.app.engine().acquire(request)).map(drop);
            let foreseen = lab.run(lab.app.engine().forecast(request)).map(drop);
            for failure in [answered, foreseen].into_iter().filter_map(Result::err) {
                // Refused because the store is in memory, or full; nothing may be broken.
                let code = failure.error.code();
                assert!(matches!(code, Code::Unsupported | Code::QueueFull), "{failure}");
            }
        }
    });
}

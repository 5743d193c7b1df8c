//! The checklist for production, compared with a configuration.

use tollgate_test_servers::Redis;

use crate::{file, run};

#[test]
fn a_configuration_is_compared_with_the_checklist() {
    let redis = Redis::start().unwrap();
    let store = format!("store: {}\n", redis.url());
    let careless = "http: off\ndeadline: 5s\npolicies:\n  a: {limit: 1 per 1s}\n  b: {limit: 1 per 1s, shadow: true}\n";
    let careless = file("careless.yaml", &format!("{store}{careless}"));
    let (_, text, error) = run(&["doctor", "--config", careless.to_str().unwrap()]);
    for advice in [
        "deadline: 5s is the wait",
        "http is off",
        "on_outage: every policy",
        "prefix: a, b, default would share",
        "limits: no policy has several",
        "hash_keys: the number of keys of a, b, default",
        "shadow: b never denies",
    ] {
        assert!(text.contains(&format!("Think about: {advice}")), "{advice}: {text}{error}");
    }
    let careful = "deadline: 100ms\nhash_secret: s\npolicies:\n  default: {prefix: prod, hash_keys: 64, on_outage: closed, limits: [{name: a, limit: 1 per 1s}, {name: b, limit: 9 per 1m}]}\n";
    let careful = file("careful.yaml", &format!("{store}{careful}"));
    let (_, text, error) = run(&["doctor", "--config", careful.to_str().unwrap()]);
    assert!(!text.contains("Think about"), "{text}{error}");
    // An invalid file is not examined.
    let wrong = file("ill.yaml", "deadlin: 1s\n");
    let (fine, _, error) = run(&["doctor", "--config", wrong.to_str().unwrap()]);
    assert!(!fine && error.contains("deadlin"), "{error}");
}

//! The checklist for production, compared with a configuration.

use tollgate_test_servers::Redis;

use crate::{file, run};

#[test]
fn a_configuration_is_compared_with_the_checklist() {
    let redis = Redis::start().unwrap();
    let store = format!("store: {}\n", redis.url());
    let unsafe_choices = "http: off
deadline: 5s
policies:
  a: {limit: 1 per 1s}
  b: {limit: 1 per 1s, shadow: true}
";
    let unsafe_choices = file("unsafe.yaml", &format!("{store}{unsafe_choices}"));
    let (_, text, error) = run(&["doctor", "--config", unsafe_choices.to_str().unwrap()]);
    for advice in [
        "deadline: 5s is the wait",
        "http is off",
        "on_outage: every policy",
        "prefix: a, b, default would share",
        "limits: no policy has several",
        "hash_keys: the number of keys of a, b, default",
        "shadow: b never denies",
    ] {
        assert!(text.contains(&format!("Consider: {advice}")), "{advice}: {text}{error}");
    }
    let safe = "deadline: 100ms
hash_secret: s
policies:
  default:
    prefix: prod
    hash_keys: 64
    on_outage: closed
    limits: [{name: a, limit: 1 per 1s}, {name: b, limit: 9 per 1m}]
";
    let safe = file("safe.yaml", &format!("{store}{safe}"));
    let (_, text, error) = run(&["doctor", "--config", safe.to_str().unwrap()]);
    assert!(!text.contains("Consider:"), "{text}{error}");
    // An invalid file is not examined.
    let wrong = file("invalid.yaml", "deadlin: 1s\n");
    let (fine, _, error) = run(&["doctor", "--config", wrong.to_str().unwrap()]);
    assert!(!fine && error.contains("deadlin"), "{error}");
}

//! The load generator against real servers. No assertion depends on their speed.

use serde_json::Value;

use crate::support::Serving;
use crate::{file, run};

/// Runs a load of 100 requests and parses its report.
fn bench(server: &Serving, url: &str, more: &[&str]) -> (bool, Value, String) {
    let http = server.http();
    let load = ["bench", "--json", "--server", &http, "--url", url, "--rate", "1000"];
    let short = ["--duration", "100ms", "--connections", "4", "--token", "token-of-a-caller"];
    let (fine, text, error) = run(&[&load[..], &short, more].concat());
    (fine, serde_json::from_str(&text).unwrap_or(Value::String(text)), error)
}

/// A server with a file of its own: tests run at the same time.
fn serving(name: &str, policies: &str) -> Serving {
    let policies = file(&format!("bench-{name}.yaml"), policies);
    let arguments = ["--config", policies.to_str().unwrap()];
    Serving::start(&arguments, &[("TOLLGATE_TOKENS", "token-of-a-caller")])
}

#[test]
fn admitted_units_are_verified_over_every_protocol() {
    let server = serving(
        "every",
        "policies:
  gcra: {limit: 20 per 1d}
  log: {algorithm: sliding_log, limit: 20 per 1d}
  sliding: {algorithm: sliding_window, limit: 20 per 1d, buckets: 4}
  first: {algorithm: fixed_window, limit: 20 per 1d, anchor: first_hit}
  both: {limits: [{name: a, limit: 20 per 1d}, {name: b, limit: 100 per 1s}]}
",
    );
    let protocols = [("http", "HTTP"), ("grpc", "gRPC"), ("resp", "RESP")];
    for (scheme, name) in protocols {
        let url = format!("{scheme}://{}", server.at(name));
        for policy in ["gcra", "log", "sliding", "first", "both"] {
            let (fine, report, error) = bench(&server, &url, &["--policy", policy]);
            let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap();
            assert!(fine && report["quota"]["holds"] == true, "{report}{error}");
            assert_eq!((report["protocol"].as_str(), number("/due")), (Some(scheme), 100));
            assert_eq!(report["errors"], serde_json::json!({}), "{report}");
            // On a machine that is very slow some are not sent.
            let decided = number("/decided");
            assert_eq!(
                (decided, number("/allowed")),
                (number("/sent"), decided.min(20)),
                "{report}"
            );
            assert_eq!(number("/quota/admitted"), number("/allowed"), "{report}");
            // A window may end while it runs, at midnight.
            let may = number("/quota/may_admit_per_key");
            assert!(may == 20 || (policy == "sliding" && may == 40), "{report}");
            let (middle, worst) = (number("/latency_us/p50"), number("/latency_us/max"));
            assert!(0 < middle && middle <= worst, "{report}");
        }
    }
}

#[test]
fn many_keys_have_a_quota_each() {
    let server = serving("keys", "policies: {p: {limit: 3 per 1d}}\n");
    let (fine, report, error) =
        bench(&server, &server.http(), &["--policy", "p", "--keys", "10", "--cost", "2"]);
    assert!(fine && report["quota"]["keys"] == 10, "{report}{error}");
    assert_eq!(report["quota"]["most_admitted_of_a_key"], 2, "{report}");
    assert_eq!(
        (&report["quota"]["admitted"], &report["allowed"]),
        (&20.into(), &10.into()),
        "{report}"
    );
}

#[test]
fn a_quota_that_is_exceeded_is_reported() {
    let (strict, lax) = (
        serving("strict", "policies: {p: {limit: 1 per 1d}}\n"),
        serving("lax", "policies: {p: {limit: 50 per 1d}}\n"),
    );
    // The limit of one server, and the decisions of another.
    let (fine, report, error) = bench(&strict, &lax.http(), &["--policy", "p"]);
    assert!(!fine && error.contains("more was admitted than the quota grants"), "{report}{error}");
    assert_eq!(
        (&report["quota"]["holds"], &report["quota"]["may_admit_per_key"]),
        (&false.into(), &1.into())
    );
}

#[test]
fn what_cannot_be_verified_or_reached_is_reported() {
    let server = serving("shadow", "policies: {p: {limit: 1 per 1d, shadow: true}}\n");
    let (fine, report, _) = bench(&server, &server.http(), &["--policy", "p"]);
    assert!(fine && report["quota"]["checked"] == false && report["denied"] == 0, "{report}");
    let (fine, report, error) = bench(&server, &server.http(), &["--policy", "unknown"]);
    assert!(!fine && error.contains("nothing was decided"), "{report}");
    assert_eq!(report["errors"]["unknown_policy"], report["sent"], "{report}");
    let http = server.http();
    for (arguments, named) in [
        (&["--protocol", "grpc"][..], "--protocol"),
        (&["--url", "ftp://x"], "--url"),
        (&["--rate", "0"], "--rate"),
        (&["--duration", "soon"], "--duration"),
        (&["--url", "resp://127.0.0.1:1"], "127.0.0.1:1"),
    ] {
        let (fine, _, error) = run(&[&["bench", "--server", &http], arguments].concat());
        assert!(!fine && error.contains(named), "{arguments:?}: {error}");
    }
}

#[test]
fn the_report_is_text_by_default() {
    let server = serving("text", "policies: {p: {limit: 7 per 1d}}\n");
    let (http, token) = (server.http(), "token-of-a-caller");
    let load = ["bench", "--server", &http, "--policy", "p", "--rate", "1000", "--token", token];
    let (fine, text, error) = run(&[&load[..], &["--duration", "50ms"]].concat());
    assert!(fine && text.starts_with("50 requests were due over http"), "{text}{error}");
    assert!(text.contains("p99.9") && text.contains("quota: kept: 7 units"), "{text}");
    assert!(!error.contains('\x1b') && !text.contains(token), "{error}");
}

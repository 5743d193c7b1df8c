//! What is counted, and that what operators are given asks only for what is there.

use crate::support::{Running, slow};

/// The names that a text asks Prometheus for.
fn names(text: &str) -> Vec<&str> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !letter(c)).filter(|word| word.starts_with("tollgate_"));
    words.collect()
}

#[tokio::test]
async fn decisions_errors_and_latencies_are_counted_without_keys() {
    let server = Running::with(slow()).await;
    for body in
        [r#"{"key":"who"}"#, r#"{"key":"who","cost":10}"#, r#"{"key":"who","cost":11}"#, "{}"]
    {
        server.post("/v1/acquire", body).await;
    }
    server.post("/v1/acquire", r#"{"key":"who","policy":"made-up"}"#).await;
    server.resp().await.five(&["CL.THROTTLE", "who", "1", "1", "1"]).await;
    let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    let decision = |policy: &str, verdict: &str| {
        let labels = format!(r#"policy="{policy}",verdict="{verdict}",degraded="no",shadow="no""#);
        format!("tollgate_decisions_total{{{labels}}} 1\n")
    };
    for verdict in ["allowed", "denied", "never"] {
        assert!(text.contains(&decision("default", verdict)), "{verdict}: {text}");
    }
    assert!(text.contains(&decision("cl.throttle", "allowed")), "{text}");
    assert!(text.contains(r#"tollgate_errors_total{code="unknown_policy"} 1"#), "{text}");
    assert!(
        text.contains(r#"tollgate_request_duration_seconds_count{protocol="http"} 5"#),
        "{text}"
    );
    assert!(
        text.contains(r#"tollgate_request_duration_seconds_count{protocol="resp"} 1"#),
        "{text}"
    );
    assert!(!text.contains("who") && !text.contains("made-up"), "{text}");
    assert!(text.ends_with("# EOF\n"));
    server.end().await;
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let registered = include_str!("../../src/metrics/mod.rs");
    let asked = [
        include_str!("../../../../deploy/prometheus/alerts.yaml"),
        include_str!("../../../../deploy/grafana/dashboard.json"),
        include_str!("../../../../docs/configuration.md"),
    ];
    let mut found = 0;
    for name in asked.iter().flat_map(|file| names(file)) {
        let family = ["_total", "_bucket", "_count", "_sum"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        assert!(registered.contains(&format!("\"{family}\"")), "{name} is not there");
        found += 1;
    }
    assert!(found > 20, "{found}");
}

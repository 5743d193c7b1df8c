//! The log of a server: levels, formats, and no key or token unless it was configured.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::Serving;
use crate::{file, run};

/// The log of a server that answers one request with a secret key.
fn logged(arguments: &[&str]) -> String {
    let server = Serving::start(arguments, &[("TOLLGATE_TOKENS", "token-of-a-caller")]);
    let acquire = ["acquire", "ada@example.com", "--token", "token-of-a-caller", "--server"];
    let (fine, _, error) = run(&[&acquire[..], &[&server.http()]].concat());
    assert!(fine, "{error}");
    server.end()
}

#[test]
fn decisions_are_logged_at_debug_and_keys_are_hashed_by_default() {
    assert!(!logged(&[]).contains("decided"));
    let text = logged(&["--log-level", "debug"]);
    assert!(text.contains("decided") && text.contains("verdict=\"allowed\""), "{text}");
    assert!(!text.contains("ada@example.com") && !text.contains("token-of"), "{text}");
    let text = logged(&["--log-level", "trace", "--log-keys", "plain"]);
    assert!(text.contains("key=\"ada@example.com\"") && !text.contains("token-of"), "{text}");
}

/// A pipe takes 64 KiB, and nothing reads it until the server ends.
#[test]
fn a_log_that_is_not_read_delays_no_decision() {
    const CALLS: usize = 5_000;
    let server = Serving::start(&["--log-level", "debug"], &[]);
    let mut client = BufReader::new(TcpStream::connect(server.at("RESP")).unwrap());
    client.get_mut().set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for _ in 0..CALLS / 100 {
        client.get_mut().write_all("TG.ACQUIRE default ada\r\n".repeat(100).as_bytes()).unwrap();
        // An array of five numbers each.
        for _ in 0..600 {
            let mut line = String::new();
            client.read_line(&mut line).expect("it is answered");
            assert!(line.starts_with(['*', ':']), "{line}");
        }
    }
    let text = server.end();
    assert!(text.contains("lines of the log were dropped"), "{text}");
    assert!(text.lines().filter(|line| line.contains("decided")).count() < CALLS);
}

/// Port 1 refuses connections.
#[test]
fn an_outage_is_logged_with_its_reason_and_without_the_password() {
    for (store, reason) in [
        (
            "redis://limiter:s3cret@127.0.0.1:1?connect_timeout_ms=30000",
            "cannot connect to 127.0.0.1:1",
        ),
        ("postgres://limiter:s3cret@127.0.0.1:1/limits", "no connection to PostgreSQL"),
    ] {
        let config = file("deadline.yaml", "deadline: 30s\n").display().to_string();
        let text = logged(&["--store", store, "--config", &config]);
        let line = text.lines().find(|line| line.contains("decided without the store"));
        let line = line.unwrap_or_else(|| panic!("nothing about the outage: {text}"));
        assert!(line.contains("mode=\"open\" code=\"store_unavailable\""), "{line}");
        assert!(line.contains(&format!("reason=\"{reason}")), "{line}");
        assert!(line.contains("refused"), "{line}");
        assert!(!text.contains("s3cret") && !text.contains("ada@example.com"), "{text}");
    }
}

#[test]
fn json_is_one_object_per_line() {
    let text = logged(&["--log-level", "debug", "--log-format", "json"]);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let decided = lines.iter().find(|line| line["message"] == "decided").expect("a decision");
    assert_eq!((&decided["level"], &decided["policy"]), (&"DEBUG".into(), &"default".into()));
    assert_eq!((&decided["cost"], &decided["remaining"]), (&1.into(), &9.into()));
    assert_eq!(decided["key"].as_str().map(str::len), Some(16), "{text}");
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let settings = file("logs.yaml", "log_level: warn\nlog_format: json\nlog_keys: plain\n");
    let output = Command::new(crate::TOLLGATE)
        .args(["config", "show", "--log-level", "error", "--config"])
        .arg(settings)
        .env_clear()
        .env("TOLLGATE_LOG_LEVEL", "debug")
        .env("TOLLGATE_LOG_FORMAT", "text")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for shown in [
        "log_level error --log-level",
        "log_format text environment TOLLGATE_LOG_FORMAT",
        "log_keys plain file, line 3",
    ] {
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|line| words(line) == shown), "{shown}: {text}");
    }
    for (flag, accepted) in [
        ("--log-level", "off, error, warn, info, debug, trace"),
        ("--log-format", "text, json"),
        ("--log-keys", "hashed, plain"),
    ] {
        let (fine, _, error) = run(&["serve", flag, "loud"]);
        assert!(!fine && error.contains(flag) && error.contains(accepted), "{error}");
    }
}

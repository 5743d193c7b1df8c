//! Third-party clients: each gets exactly the limit, and the headers of a denial.

use std::process::{Command, Output};

use serde_json::{Value, json};
use tollgate_test_servers::{Nginx, Python, program};

use crate::{ADMIN, Client, Running, SECRET, Setup, Target};

/// Units of the policy `p`, which come back within a day.
const LIMIT: usize = 20;
const CALLS: usize = 3 * LIMIT;
/// The seed of the property-based client.
const SEED: &str = "20261115";

/// curl is admitted exactly as often as the limit says, and sees the headers of a denial.
pub async fn curl_gets_exactly_the_limit<T: Target>(target: &T) {
    let policies = policies();
    let setup = Setup { receipt_secret: SECRET, ..Setup::of(&policies) };
    let server = target.start(setup).await;
    let client = Client::of(&server);
    let answers = curl(&[], client.url("/v1/gate?policy=p&key=gate")).await;
    let passed = answers.iter().filter(|line| line.starts_with("204|")).count();
    let denied = answers.iter().filter(|line| is_denial(line)).count();
    assert_eq!((passed, denied), (LIMIT, CALLS - LIMIT), "{answers:#?}");
    // A denial is a normal response of an endpoint that returns decisions.
    let body = &["--data", r#"{"policy":"p","key":"curl"}"#];
    let answers = curl(body, client.url("/v1/acquire")).await;
    assert!(answers.iter().all(|line| line == "200||||application/json"), "{answers:#?}");
    if T::HAS_METRICS {
        let text = client.get("/metrics").await.text().await.unwrap();
        let admitted = r#"policy="p",verdict="allowed",degraded="no",shadow="no"} 40"#;
        assert!(text.contains(admitted), "{text}");
    }
    // Two keys in one request, and final costs below and above the limit.
    let both = json!({"charges": [
        {"policy": "p", "key": "one", "cost": 5},
        {"policy": "p", "key": "two", "cost": {"min": 1, "max": 90}},
    ], "receipt": true});
    let charged = post(client.url("/v1/acquire"), &both).await;
    assert_eq!((&charged["allowed"], &charged["granted"]), (&json!(true), &json!(LIMIT)));
    let costs = json!({"limits[0]": LIMIT + 4, "limits[1]": 1});
    let settlement = json!({"receipt": charged["receipt"], "costs": costs});
    for replayed in [false, true] {
        let settled = post(client.url("/v1/settle"), &settlement).await;
        let charges = [&settled["limits"][0]["charged"], &settled["limits"][1]["refunded"]];
        assert_eq!(charges, [&json!(LIMIT - 1), &json!(LIMIT - 1)], "{settled}");
        assert_eq!(settled["replayed"] == true, replayed, "{settled}");
    }
    server.end().await;
}

/// nginx, configured by the file that is deployed, forwards exactly the limit.
pub async fn nginx_forwards_exactly_the_limit_and_the_headers_of_denials(target: &impl Target) {
    let server = target.start(Setup::of(&policies())).await;
    let client = Client::of(&server);
    let gate = client.url("/v1/gate?policy=p&");
    let start = move || {
        Nginx::start(move |front, behind| {
            // The file that is deployed, with the addresses and the policy of this test.
            include_str!("../../../deploy/nginx/tollgate.conf")
                .replace("127.0.0.1:8081", &front.to_string())
                .replace("http://127.0.0.1:8080/v1/gate?", &gate)
                .replace("127.0.0.1:8082", &behind.to_string())
        })
    };
    let nginx = tokio::task::spawn_blocking(start).await.unwrap().unwrap();
    let url = format!("http://{}/page", nginx.addr());
    let answers = curl(&[], url.clone()).await;
    let passed = answers.iter().filter(|line| line.starts_with("200||\"p\";r=")).count();
    let denied = answers.iter().filter(|line| is_denial(line)).count();
    assert_eq!((passed, denied), (LIMIT, CALLS - LIMIT), "{answers:#?}\n{}", nginx.log());
    server.end().await;
    // Without the server no request passes, and none gets 429.
    let status = reqwest::get(url).await.unwrap().status().as_u16();
    assert_eq!(status, 500);
}

/// A property-based client finds no reply that the document does not describe.
pub async fn schemathesis_finds_no_difference_from_the_document<T: Target>(target: &T) {
    // An administrator: elsewhere than on a server of its own, every other client is none.
    let policies = policies();
    let setup = Setup { admin_tokens: &[ADMIN], ..Setup::of(&policies) };
    let server = target.start(setup).await;
    let client = Client::of(&server);
    let document = client.url("/openapi.json");
    let output = run(move || {
        let packages = include_str!("../../tollgate-server/tests/clients/schemathesis.txt");
        let python = Python::with("schemathesis", packages).unwrap();
        let mut command = python.program("schemathesis").unwrap();
        command.args(["run", &document, "--checks", "all", "--no-color"]);
        command.args(["--header", &format!("Authorization: Bearer {ADMIN}")]);
        // A schema counts characters; the bounds of keys and ids are bytes.
        command.args(["--exclude-checks", "positive_data_acceptance"]);
        command.args(["--seed", SEED, "--max-examples", "15", "--phases", "coverage,fuzzing"]);
        // No text that is drawn is a receipt, which schemathesis warns of.
        command.args(["--warnings", "off"]);
        // The stream of events has no end.
        let without_process = "^(/metrics|/v1/status|/v1/events|/v1/inspect)$";
        let excluded = if T::HAS_METRICS { "^/v1/events$" } else { without_process };
        command.args(["--exclude-path-regex", excluded]);
        // A slow machine is no finding, and nothing is left in the checkout.
        command.args(["--suppress-health-check", "all", "--request-timeout", "60"]);
        command.args(["--generation-database", "none"]).current_dir(std::env::temp_dir());
        command
    })
    .await;
    println!("{output}");
    let tested = if T::HAS_METRICS { "Tested: 16" } else { "Tested: 13" };
    for text in [&format!("Seed: {SEED}"), "No issues found", tested] {
        assert!(output.contains(text), "{text}: {output}");
    }
    server.end().await;
}

fn policies() -> String {
    format!("policies: {{p: {{limit: {LIMIT} per 1d}}}}")
}

/// Runs a program to its end while the server runs; its standard output.
async fn run(prepare: impl FnOnce() -> Command + Send + 'static) -> String {
    let run = move || prepare().output().unwrap();
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(run).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (output, errors) = (text(stdout), text(stderr));
    assert!(status.success(), "{output}{errors}");
    output
}

/// Sends all requests to a URL at once with curl; status, then headers, of every response.
async fn curl(arguments: &'static [&'static str], url: String) -> Vec<String> {
    let output = run(move || {
        let mut command = Command::new(program("curl", "curl").unwrap());
        command.args(["--silent", "--show-error", "--parallel", "--parallel-immediate"]);
        command.args(["--output", "/dev/null"].repeat(CALLS)).args(arguments);
        let seen = ["retry-after", "ratelimit", "ratelimit-policy", "content-type"];
        let seen: String = seen.iter().map(|name| format!("|%header{{{name}}}")).collect();
        command.args(["--write-out", &format!("%{{http_code}}{seen}\\n")]);
        command.args(std::iter::repeat_n(url, CALLS));
        command
    })
    .await;
    output.lines().map(str::to_owned).collect()
}

/// Posts a document with curl; the answer.
async fn post(url: String, document: &Value) -> Value {
    let document = document.to_string();
    let output = run(move || {
        let mut command = Command::new(program("curl", "curl").unwrap());
        command.args(["--silent", "--show-error", "--data", &document, &url]);
        command
    })
    .await;
    serde_json::from_str(&output).unwrap_or_else(|_| panic!("{output}"))
}

/// Whether a line of [`curl`] is a denial with all headers.
fn is_denial(line: &str) -> bool {
    let [status, retry_after, limit, policy, _] = *line.split('|').collect::<Vec<_>>().as_slice()
    else {
        return false;
    };
    // A unit comes back after a twentieth of a day, less what has passed since. The clock of a
    // Worker stands still while a request waits, so its reading may be seconds old.
    let wait: u64 = retry_after.parse().unwrap_or(0);
    status == "429"
        && (1..=4_330).contains(&wait)
        && limit == format!("\"p\";r=0;t={wait}")
        && policy == format!("\"p\";q={LIMIT};w=86400")
}

//! Third-party clients: each gets exactly the limit, and the headers of a denial.

use std::path::Path;
use std::process::{Command, Output};

use tollgate_server::Config;
use tollgate_test_servers::{Nginx, NodeJs, Python, program};

use crate::support::Running;

/// Units of the policy `p`, which come back within a day.
const LIMIT: usize = 20;
const CALLS: usize = 3 * LIMIT;
/// The seed of the property-based client.
const SEED: &str = "20261115";

async fn server() -> Running {
    let text = format!("policies: {{p: {{limit: {LIMIT} per 1d}}}}");
    let config = Config::of_text(&[], |_| None, Some(("t.yaml", &text))).unwrap();
    Running::with(config.policies).await
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

/// The ports of a server, as arguments.
fn ports(server: &Running) -> [String; 2] {
    [server.at.resp.unwrap(), server.at.grpc.unwrap()].map(|at| at.port().to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_and_grpcio_get_exactly_the_limit() {
    let server = server().await;
    let ports = ports(&server);
    let output = run(move || {
        let python = Python::with("clients", include_str!("../clients/python.txt")).unwrap();
        let mut command = python.command().unwrap();
        command.args(["-c", include_str!("../clients/python.py")]).args(ports);
        command.arg(LIMIT.to_string());
        command
    })
    .await;
    assert!(output.ends_with(&format!("{LIMIT} of {CALLS}\n")), "{output}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ioredis_and_grpc_js_get_exactly_the_limit() {
    let server = server().await;
    let ports = ports(&server);
    let output = run(move || {
        let package = include_str!("../clients/package.json");
        let lock = include_str!("../clients/package-lock.json");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = NodeJs::with("clients", package, lock).unwrap().command().unwrap();
        command.arg(here.join("tests/clients/node.cjs")).args(ports).arg(LIMIT.to_string());
        command.arg(here.join("../tollgate-proto/proto/tollgate/v1/tollgate.proto"));
        command
    })
    .await;
    assert!(output.ends_with(&format!("{LIMIT} of {CALLS}\n")), "{output}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_gets_exactly_the_limit() {
    let server = server().await;
    let [port, _] = ports(&server);
    let cli = move |words: &'static str| {
        let port = port.clone();
        run(move || {
            let mut command = Command::new(program("redis-cli", "redis-tools").unwrap());
            command.args(["-p", &port]).args(words.split(' '));
            command
        })
    };
    let decided = cli("-3 CL.THROTTLE user123 15 30 60").await;
    assert!(decided.starts_with("0\n16\n15\n-1\n"), "{decided}");
    // Six at once, ten calls each.
    let acquire = || cli("-r 10 TG.ACQUIRE p redis-cli");
    let (a, b, c, d, e, f) =
        tokio::join!(acquire(), acquire(), acquire(), acquire(), acquire(), acquire());
    let replies = [a, b, c, d, e, f].concat();
    let lines: Vec<&str> = replies.lines().filter(|line| !line.is_empty()).collect();
    let passed = lines.chunks(5).filter(|reply| reply[0] == "1").count();
    assert_eq!((lines.len(), passed), (5 * CALLS, LIMIT), "{replies}");
    server.end().await;
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

/// Whether a line of [`curl`] is a denial with all headers.
fn is_denial(line: &str) -> bool {
    let [status, retry_after, limit, policy, _] = *line.split('|').collect::<Vec<_>>().as_slice()
    else {
        return false;
    };
    // A unit comes back after a twentieth of a day, less what has passed since.
    let wait: u64 = retry_after.parse().unwrap_or(0);
    status == "429"
        && (1..=4_320).contains(&wait)
        && limit == format!("\"p\";r=0;t={wait}")
        && policy == format!("\"p\";q={LIMIT};w=86400")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curl_gets_exactly_the_limit() {
    let server = server().await;
    let answers = curl(&[], server.url("/v1/gate?policy=p&key=gate")).await;
    let passed = answers.iter().filter(|line| line.starts_with("204|")).count();
    let denied = answers.iter().filter(|line| is_denial(line)).count();
    assert_eq!((passed, denied), (LIMIT, CALLS - LIMIT), "{answers:#?}");
    // A denial is a normal response of an endpoint that returns decisions.
    let body = &["--data", r#"{"policy":"p","key":"curl"}"#];
    let answers = curl(body, server.url("/v1/acquire")).await;
    assert!(answers.iter().all(|line| line == "200||||application/json"), "{answers:#?}");
    let text = reqwest::get(server.url("/metrics")).await.unwrap().text().await.unwrap();
    let admitted = r#"policy="p",verdict="allowed",degraded="no",shadow="no"} 40"#;
    assert!(text.contains(admitted), "{text}");
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_forwards_exactly_the_limit_and_the_headers_of_denials() {
    let server = server().await;
    let gate = server.url("/v1/gate?policy=p&");
    let start = move || {
        Nginx::start(move |front, behind| {
            // The file that is deployed, with the addresses and the policy of this test.
            include_str!("../../../../deploy/nginx/tollgate.conf")
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_no_difference_from_the_document() {
    let server = server().await;
    let document = server.url("/openapi.json");
    let output = run(move || {
        let packages = include_str!("../clients/schemathesis.txt");
        let python = Python::with("schemathesis", packages).unwrap();
        let mut command = python.program("schemathesis").unwrap();
        command.args(["run", &document, "--checks", "all", "--no-color"]);
        // A schema counts characters; the bounds of keys and ids are bytes.
        command.args(["--exclude-checks", "positive_data_acceptance"]);
        command.args(["--seed", SEED, "--max-examples", "15", "--phases", "coverage,fuzzing"]);
        // A slow machine is no finding, and nothing is left in the checkout.
        command.args(["--suppress-health-check", "all", "--request-timeout", "60"]);
        command.args(["--generation-database", "none"]).current_dir(std::env::temp_dir());
        command
    })
    .await;
    println!("{output}");
    let expected = [&format!("Seed: {SEED}"), "No issues found", "Tested: 12"];
    for text in expected {
        assert!(output.contains(text), "{text}: {output}");
    }
    server.end().await;
}

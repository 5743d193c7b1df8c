//! Third-party clients of gRPC and RESP: each gets exactly the limit. Those of HTTP are among the
//! tests of the API.

use std::path::Path;
use std::process::{Command, Output};

use tollgate_server::Config;
use tollgate_test_servers::{NodeJs, Python, program};

use crate::support::Running;

/// Units of the policy `p`, which come back within a day.
const LIMIT: usize = 20;
const CALLS: usize = 3 * LIMIT;

async fn server() -> Running {
    let text = format!(
        "policies:
  p: {{limit: {LIMIT} per 1d}}
  default: {{limit: {LIMIT} per 1d}}
  wide: {{limit: 1000 per 1d}}
  shaped: {{algorithm: leaky_bucket, rate: 1 per 1h, queue: 3}}
"
    );
    let config = Config::of_text(&[], |_| None, Some(("t.yaml", &text))).unwrap();
    Running::with(config.policies).await
}

/// Runs a program to its end while the server runs; its standard output.
pub(crate) async fn run(prepare: impl FnOnce() -> Command + Send + 'static) -> String {
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
        command.arg(here.join("tests/clients/reference.proto"));
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

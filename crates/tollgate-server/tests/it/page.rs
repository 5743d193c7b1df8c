//! The page for operators, in a real browser.

use std::path::Path;
use std::process::Command;

use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};
use tollgate_test_servers::{NodeJs, program};

use crate::clients::run;
use crate::support::Running;

const CALLER: &str = "token-of-a-caller";
const POLICIES: &str = "log_keys: plain
policies:
  api: {limit: 1000 per 1s}
  login:
    limits:
      - {name: minute, limit: 3 per 1m}
      - {name: day, limit: 100 per 1d}
";

async fn server(more: &[(Setting, String)]) -> Running {
    let any = || "127.0.0.1:0".to_owned();
    let mut flags = vec![(Setting::Http, any()), (Setting::Grpc, any()), (Setting::Resp, any())];
    flags.extend_from_slice(more);
    let config = Config::of_text(&flags, |_| None, Some(("t.yaml", POLICIES))).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_works_in_a_browser() {
    let open = server(&[]).await;
    let guarded = server(&[(Setting::Tokens, CALLER.to_owned())]).await;
    let urls = [open.url("/"), guarded.url("/")];
    let output = run(move || {
        let package = include_str!("../page/package.json");
        let lock = include_str!("../page/package-lock.json");
        let browser = program("chromium", "chromium").unwrap();
        let mut command: Command =
            NodeJs::with("browser", package, lock).unwrap().command().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/browser.cjs");
        command.arg(script).arg(browser).args(urls).arg(CALLER);
        command
    })
    .await;
    assert!(output.ends_with("needsAToken\n"), "{output}");
    open.end().await;
    guarded.end().await;
}

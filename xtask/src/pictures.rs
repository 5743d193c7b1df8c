//! The pictures of `docs/page.md`: a server under load for some minutes, in a real browser.

use std::fs;

use tollgate_test_servers::{NodeJs, Result, Server, program};

use crate::run::{TaskResult, cargo, root, run, target};
use crate::served::Tollgate;

/// Where the load and the browser are driven from.
const SCRIPTS: &str = "crates/tollgate-server/tests/page";
const PICTURES: &str = "docs/images";
/// How long the load lasts before the first picture.
const SECONDS: &str = "300";

/// Draws them with a release build.
///
/// # Errors
/// When the server or the browser does not start, or the page does not show what it should.
pub(crate) fn pictures() -> TaskResult {
    run(cargo(&["build", "--release", "--locked", "-p", "tollgate-cli"]))?;
    draw().map_err(|error| error.to_string())
}

fn draw() -> Result<()> {
    let scripts = root().join(SCRIPTS);
    let read = |name: &str| fs::read_to_string(scripts.join(name));
    let browser = program("chromium", "chromium")?;
    let node = NodeJs::with("browser", &read("package.json")?, &read("package-lock.json")?)?;
    let config = Some(scripts.join("pictures.yaml"));
    let server = Server::start(Tollgate { binary: target().join("release/tollgate"), config })?;
    let mut command = node.command()?;
    command.arg(scripts.join("pictures.cjs")).arg(browser);
    command.arg(format!("http://{}/", server.addr())).args([SECONDS]).arg(root().join(PICTURES));
    run(command).map_err(tollgate_test_servers::Error::new)
}

//! The programs: installed by the name of their package, or built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tollgate_test_servers::install::{cached, program};

use crate::Result;

/// The version of throttlecrab-server.
pub(super) const CRAB: &str = "0.4.40";

/// Where the programs are.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) tollgate: PathBuf,
    pub(super) throttlecrab: PathBuf,
    pub(super) nginx: PathBuf,
    pub(super) h2load: PathBuf,
    pub(super) wrk: PathBuf,
    pub(super) redis_benchmark: PathBuf,
}

impl Programs {
    /// Finds all of them, and installs or builds what is missing.
    pub(super) fn new(given: Option<&Path>) -> Result<Self> {
        let apt = |name, package| program(name, package).map_err(|error| error.to_string());
        Ok(Self {
            tollgate: given.map_or_else(tollgate, |path| Ok(path.to_owned()))?,
            nginx: apt("nginx", "nginx")?,
            h2load: apt("h2load", "nghttp2-client")?,
            wrk: apt("wrk", "wrk")?,
            redis_benchmark: apt("redis-benchmark", "redis-tools")?,
            throttlecrab: throttlecrab()?,
        })
    }

    /// The versions of what is not a crate of this program, in words.
    pub(super) fn versions(&self) -> String {
        let of = |program: &Path, argument: &str| {
            let output = Command::new(program).arg(argument).stdin(Stdio::null()).output();
            let text = output.map(|output| [output.stdout, output.stderr].concat());
            let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            // wrk adds who wrote it.
            line.split(" [").next().unwrap_or_default().trim().to_owned()
        };
        let all = [
            of(&self.tollgate, "--version"),
            format!("throttlecrab-server {CRAB}"),
            of(&self.nginx, "-v"),
            of(&self.h2load, "--version"),
            of(&self.wrk, "-v"),
            of(&self.redis_benchmark, "--version"),
        ];
        all.join(", ")
    }
}

/// The release build of this checkout.
fn tollgate() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "tollgate-cli"]).current_dir(root);
    run(&mut build)?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(folder.join("release/tollgate"))
}

/// Built once, with the profile of Tollgate's release build.
fn throttlecrab() -> Result<PathBuf> {
    let built = cached(&format!("throttlecrab-server-{CRAB}"), |folder| {
        // Its build script runs it.
        program("protoc", "protobuf-compiler")?;
        let target = folder.join("target");
        let mut install = cargo();
        install.args(["install", "throttlecrab-server", "--version", CRAB, "--locked", "--root"]);
        install.arg(folder).env("CARGO_TARGET_DIR", &target).current_dir(folder);
        install.envs([
            ("CARGO_PROFILE_RELEASE_LTO", "thin"),
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
        ]);
        run(&mut install).map_err(tollgate_test_servers::Error::new)?;
        Ok(std::fs::remove_dir_all(target)?)
    });
    let folder = built.map_err(|error| error.to_string())?;
    Ok(folder.join("bin/throttlecrab-server"))
}

/// Cargo, without the settings of the build of this program.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").stdin(Stdio::null());
    cargo
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

//! All checks that must pass, cheap ones first.

use std::process::Command;

use tollgate_core::{Clock, SystemClock};

use crate::run::{TaskResult, cargo, command, command_line, output, run, succeeds};
use crate::{features, package, tidy, tools, wasm};

/// Commands of cargo that the steps need, and the component of the toolchain with each.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// The disk space that a first run needs in the repository, rounded up.
const SPACE_BYTES: u64 = 8 << 30;

const BENCH: &str = "bench/Cargo.toml";

/// What clippy checks, and how strictly. `--locked`: the committed versions are checked.
const LINT: [&str; 5] = ["--all-targets", "--locked", "--", "-D", "warnings"];

/// Installs what is missing, then runs every step; the first failure ends it.
pub(crate) fn ci() -> TaskResult {
    let clock = SystemClock::new();
    let start = clock.now();
    warn_of_a_full_disk();
    timed(&clock, "set-up", set_up)?;
    timed(&clock, "tidy", tidy::tidy)?;
    timed(&clock, "licences and sources", tools::deny)?;
    run_all(&clock, lints())?;
    timed(&clock, "packages of the crates", || package::package(false))?;
    // Before the tests, which run the Workers.
    timed(&clock, "wasm32 builds", wasm::wasm)?;
    run_all(&clock, tests())?;
    timed(&clock, "features one by one", features::features)?;
    println!("== all passed in {}", seconds(clock.now() - start));
    Ok(())
}

fn run_all(clock: &SystemClock, steps: Vec<Command>) -> TaskResult {
    for mut step in steps {
        // Incremental builds need twice the disk space.
        step.env("CARGO_INCREMENTAL", "0");
        timed(clock, &command_line(&step), || run(step))?;
    }
    Ok(())
}

fn lints() -> Vec<Command> {
    vec![
        cargo(&["fmt", "--all", "--check"]),
        cargo(&["fmt", "--manifest-path", BENCH, "--check"]),
        cargo(&[&["clippy", "--workspace", "--all-features"], &LINT[..]].concat()),
    ]
}

fn tests() -> Vec<Command> {
    let mut doc = cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    vec![
        // Unit tests, integration tests, examples and doctests, those of the README included. The
        // tests start servers, and install them if they are missing.
        cargo(&["test", "--workspace", "--all-features", "--locked"]),
        doc,
        // The benchmarks are a workspace of their own, which must compile against the crates.
        cargo(&[&["clippy", "--manifest-path", BENCH], &LINT[..]].concat()),
    ]
}

/// A linker on a full disk is killed by a signal and prints no reason.
fn warn_of_a_full_disk() {
    let free = output(command("df", &["--output=avail", "--block-size=1", "."]));
    let free = free.ok().and_then(|listed| listed.lines().last()?.trim().parse::<u64>().ok());
    if let Some(free) = free.filter(|free| *free < SPACE_BYTES) {
        let (free, needed) = (free >> 20, SPACE_BYTES >> 20);
        println!("WARNING: {free} MiB are free here; a first run takes about {needed} MiB");
    }
}

/// Installs missing components of the toolchain, downloads all dependencies, and builds the servers
/// and tools that are published as source only.
fn set_up() -> TaskResult {
    for (tool, component) in COMPONENTS {
        if !succeeds(cargo(&[tool, "--version"])) {
            println!("{component} is missing: installing it");
            run(command("rustup", &["component", "add", component]))?;
        }
    }
    // Tests that inspect the dependencies must not download them.
    run(cargo(&["fetch", "--locked", "--target", wasm::TARGET]))?;
    tools::DENY.built().map_err(|error| error.to_string())?;
    tollgate_test_servers::prepare().map_err(|error| error.to_string())
}

fn timed(clock: &SystemClock, name: &str, step: impl FnOnce() -> TaskResult) -> TaskResult {
    println!("== {name}");
    let start = clock.now();
    let done = step();
    let verdict = if done.is_ok() { "passed" } else { "FAILED" };
    println!("== {name}: {verdict} in {}", seconds(clock.now() - start));
    done
}

fn seconds(micros: u64) -> String {
    format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10)
}

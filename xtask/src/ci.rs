//! Everything that must pass, in the order in which failures are cheapest to find.

use std::process::Command;

use tollgate_core::{Clock, SystemClock};

use crate::run::{Done, cargo, command, output, run, spoken, succeeds};
use crate::{tidy, wasm};

/// The tools that the steps need, and the component of the toolchain that brings each.
const TOOLS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// What a first run writes below the repository, with some to spare.
const ROOM: u64 = 8 << 30;

const BENCH: &str = "bench/Cargo.toml";

/// Sets up what is missing, then runs every step; the first failure ends it.
pub(crate) fn ci() -> Done {
    let clock = SystemClock::new();
    let start = clock.now();
    warn_of_a_full_disk();
    timed(&clock, "set-up", set_up)?;
    for mut step in steps() {
        // For builds that follow a change, what is kept takes twice the room of what is built.
        step.env("CARGO_INCREMENTAL", "0");
        timed(&clock, &spoken(&step), || run(step))?;
    }
    timed(&clock, "tidy", tidy::tidy)?;
    match wasm::missing() {
        None => timed(&clock, "wasm32 builds", wasm::wasm)?,
        Some(why) => println!("== wasm32 builds: SKIPPED: {why}"),
    }
    println!("== all passed in {}", seconds(clock.now() - start));
    Ok(())
}

/// `--locked`: what is tested is what is committed.
fn steps() -> Vec<Command> {
    let mut doc = cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let lint = ["--all-targets", "--locked", "--", "-D", "warnings"];
    vec![
        cargo(&["fmt", "--all", "--check"]),
        cargo(&["fmt", "--manifest-path", BENCH, "--check"]),
        cargo(&[&["clippy", "--workspace", "--all-features"], &lint[..]].concat()),
        // Unit and integration tests, examples; documentation too, the README among it. Servers are
        // started, and installed if they are missing.
        cargo(&["test", "--workspace", "--all-features", "--locked"]),
        doc,
        // The benchmarks are a workspace of their own: they must keep compiling against the crates.
        cargo(&[&["clippy", "--manifest-path", BENCH], &lint[..]].concat()),
    ]
}

/// A linker that finds no room dies of a signal and does not say why.
fn warn_of_a_full_disk() {
    let free = output(command("df", &["--output=avail", "--block-size=1", "."]));
    let free = free.ok().and_then(|said| said.lines().last()?.trim().parse::<u64>().ok());
    if let Some(free) = free.filter(|free| *free < ROOM) {
        let (free, room) = (free >> 20, ROOM >> 20);
        println!("WARNING: {free} MiB are free here; a first run takes about {room} MiB");
    }
}

/// Installs the components of the toolchain that are missing, downloads what tests look at, and builds
/// the servers that only come as source.
fn set_up() -> Done {
    for (tool, component) in TOOLS {
        if !succeeds(cargo(&[tool, "--version"])) {
            println!("{component} is missing: installing it");
            run(command("rustup", &["component", "add", component]))?;
        }
    }
    // The steps download what they build; no test should have to download anything.
    run(cargo(&["fetch", "--locked", "--target", wasm::TARGET]))?;
    tollgate_test_servers::prepare().map_err(|error| error.to_string())
}

fn timed(clock: &SystemClock, name: &str, step: impl FnOnce() -> Done) -> Done {
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

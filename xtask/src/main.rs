//! Tasks of the project, in Rust instead of shell: `cargo xtask <task>`.
//!
//! `ci` is what a contributor runs before sending a change, and what a machine runs after: one
//! command, so that the two can never differ.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task talks to whoever started it"
)]

mod ci;
#[cfg(test)]
mod closure;
mod files;
mod lines;
mod run;
mod soak;
mod tidy;
mod vectors;
mod wasm;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <task>

  ci               everything that must pass: set-up, format, lints, tests, documentation, tidy, bench
  tidy             the rules that neither the compiler nor clippy knows
  lines [FOLDER]   lines, largest file and function, and share of documentation of every crate
  vectors          writes the golden vectors again, from the reference model
  soak             all that follows; slow unless optimised: cargo run --release -p xtask -- soak
  soak STEPS       every algorithm against the reference model, 10,000,000 steps each by default
  soak fuzz [MINUTES [TARGET]]
                   every fuzz target guided by coverage, 10 minutes each by default
  soak api [MINUTES]
                   schemathesis against a server, 10 minutes by default
  wasm             builds the core for wasm32-unknown-unknown
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["ci"] => ci::ci(),
        ["lines"] => lines::lines(None),
        ["lines", folder] => lines::lines(Some(folder)),
        ["tidy"] => tidy::tidy(),
        ["vectors"] => vectors::write(),
        ["soak", what @ ..] => soak::soak(what),
        ["wasm"] => wasm::wasm(),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

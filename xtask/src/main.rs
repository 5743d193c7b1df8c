//! Tasks of the project, in Rust instead of shell: `cargo xtask <task>`.
//!
//! Contributors and the continuous integration run the same command, `ci`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task prints its progress")]

mod ci;
#[cfg(test)]
mod closure;
mod dist;
mod faults;
mod features;
mod files;
mod generate;
mod lines;
mod metadata;
mod mutants;
mod package;
mod page_cost;
mod pictures;
mod public_items;
mod run;
mod served;
mod soak;
mod tidy;
mod tools;
mod wasm;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask <task>

  ci               all checks that must pass: tidy, licences and sources, format, lints, packages,
                   wasm32, tests, documentation, the build of the benchmarks, features one by one
  tidy             the rules that neither the compiler nor clippy checks
  tidy --words     every use of a word that the project does not use, and their number per crate
  deny             licences, sources and duplicates of the dependencies (deny.toml)
  features         every library with each feature alone
  lines [FOLDER]   lines, largest file and function, share of documentation, and public items of
                   every crate
  package [--verify]
                   the packages of the published crates, and whether each is complete; built from
                   its files alone with --verify
  dist             what is released, in the folder dist: a static binary with manual pages and
                   completions, a Debian package, a bill of materials, checksums
  deb BINARY VERSION FOLDER
                   a Debian package of any build of the binary
  page-cost        what an open page costs a server under load, in CPU time per request
  pictures         draws the pictures of docs/page.md
  faults [--seed N] [NAMES]
                   faults of real stores under a fleet of servers, with release builds; writes
                   docs/guarantees.md. A name is one of a scenario, a figure or a store
  generate         writes what is generated: golden vectors, tables of docs, the schema
  soak             the four tasks below; optimised with: cargo run --release -p xtask -- soak
  soak STEPS       every algorithm against the reference model, 10,000,000 steps each by default
  soak fuzz [MINUTES [TARGET]]
                   every fuzz target guided by coverage, 10 minutes each by default
  soak api [MINUTES]
                   schemathesis against a server, 10 minutes by default
  soak abuse [MINUTES]
                   clients that attack a server, and the latency of another client, 10 minutes
  mutants [--OPTION=VALUE] [PATHS]
                   cargo-mutants on the code that decides; hours, so choose with --shard=0/16
  wasm [debian]    builds the crates for Workers, and the Workers, for wasm32-unknown-unknown; with
                   Debian's compiler
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["ci"] => ci::ci(),
        ["mutants", arguments @ ..] => mutants::mutants(arguments),
        ["lines"] => lines::lines(None),
        ["lines", folder] => lines::lines(Some(folder)),
        ["tidy"] => tidy::tidy(),
        ["tidy", "--words"] => tidy::print_words(),
        ["deny"] => tools::deny(),
        ["features"] => features::features(),
        ["package"] => package::package(false),
        ["package", "--verify"] => package::package(true),
        ["dist"] => dist::dist(),
        ["deb", binary, version, folder] => dist::debian_package(binary, version, folder),
        ["pictures"] => pictures::pictures(),
        ["page-cost"] => page_cost::page_cost(None),
        ["page-cost", binary] => page_cost::page_cost(Some(binary)),
        ["faults", arguments @ ..] => faults::faults(arguments),
        ["generate"] => generate::write(),
        ["soak", what @ ..] => soak::soak(what),
        ["wasm"] => wasm::wasm(),
        ["wasm", "debian"] => wasm::wasm_with_debian(),
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

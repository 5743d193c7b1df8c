//! The one binary, `tollgate`: parses arguments, and hands over to the command.
#![expect(clippy::print_stderr, reason = "a command talks to whoever started it")]

mod args;
mod cmd;
mod log;
mod open_files;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, Config};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Serve(settings) => cmd::serve::run(&settings),
        Command::Acquire(ask) => cmd::client::ask("/v1/acquire", &ask),
        Command::Peek(ask) => cmd::client::ask("/v1/peek", &ask),
        Command::Reset { server, policy, key } => cmd::client::reset(&server, &policy, &key),
        Command::Doctor { store, config } => cmd::doctor::run(store.as_deref(), config.as_deref()),
        Command::Bench(bench) => cmd::bench::run(&bench),
        Command::Migrate { store } => cmd::migrate::run(&store),
        Command::Completions { shell } => cmd::manual::completions(shell),
        Command::Man => cmd::manual::page(),
        Command::Lint { file } => cmd::config::lint(&file),
        Command::Config(Config::Show(settings)) => cmd::config::show(&settings),
        Command::Config(Config::Schema) => cmd::config::schema(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

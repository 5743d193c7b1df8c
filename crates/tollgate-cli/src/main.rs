//! The binary `tollgate`: parses arguments, and runs the command.
#![expect(clippy::print_stderr, reason = "a command reports its error")]

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
        Command::Acquire(check) => cmd::client::check("/v1/acquire", &check),
        Command::Peek(check) => cmd::client::check("/v1/peek", &check),
        Command::Settle(settle) => cmd::client::settle(&settle),
        Command::Reset { server, policy, key } => cmd::client::reset(&server, &policy, &key),
        Command::Doctor { store, config } => cmd::doctor::run(store.as_deref(), config.as_deref()),
        Command::Bench(bench) => cmd::bench::run(&bench),
        Command::Migrate { store } => cmd::migrate::run(&store),
        Command::Completions { shell } => cmd::docs::completions(shell),
        Command::Man => cmd::docs::manual_page(),
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

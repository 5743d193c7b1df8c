//! The binary `tollgate`: parses arguments, and runs the command.
#![expect(clippy::print_stderr, reason = "a command reports its error")]

mod args;
mod cmd;
mod log;
mod open_files;

use std::process::ExitCode;

use clap::Parser;
use tollgate_server::config::ConfigErrors;

use args::{Args, Command, Config};
use cmd::{Failed, Refused, Usage, code};

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err((error, otherwise)) => {
            match error.downcast_ref::<ConfigErrors>() {
                Some(errors) => eprintln!("{errors:#}"),
                None => eprintln!("{error}"),
            }
            let refused = error.downcast_ref::<Refused>().map(|refused| refused.code);
            let usage = error.is::<Usage>().then_some(code::USAGE);
            ExitCode::from(refused.or(usage).unwrap_or(otherwise))
        }
    }
}

/// The exit code of a command, or its error with the code of an error of no kind.
fn run(command: Command) -> Result<u8, (Failed, u8)> {
    let client = |done: Result<u8, Failed>| done.map_err(|error| (error, code::NOT_ASKED));
    let other = |done: Result<(), Failed>| done.map(|()| 0).map_err(|error| (error, 1));
    match command {
        Command::Acquire(check) => client(cmd::client::check("/v1/acquire", &check)),
        Command::Peek(check) => client(cmd::client::check("/v1/peek", &check)),
        Command::Settle(settle) => client(cmd::client::settle(&settle).map(|()| 0)),
        Command::Reset { server, policy, key } => {
            client(cmd::client::reset(&server, &policy, &key).map(|()| 0))
        }
        Command::Bench(bench) => client(cmd::bench::run(&bench).map(|()| 0)),
        Command::Serve(settings) => other(cmd::serve::run(&settings)),
        Command::Doctor { store, config } => {
            other(cmd::doctor::run(store.as_deref(), config.as_deref()))
        }
        Command::Migrate { store } => other(cmd::migrate::run(&store)),
        Command::Completions { shell } => other(cmd::docs::completions(shell)),
        Command::Man { out } => other(cmd::docs::manual(out.as_deref())),
        Command::Lint { files } => cmd::config::lint(&files).map_err(|error| (error, 1)),
        Command::Config(Config::Show(settings)) => other(cmd::config::show(&settings)),
        Command::Config(Config::Schema) => other(cmd::config::schema()),
    }
}

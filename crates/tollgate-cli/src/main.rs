//! The one binary, `tollgate`: parses arguments, and hands over to the command.
#![expect(clippy::print_stderr, reason = "a command talks to whoever started it")]

mod args;
mod cmd;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command, Config};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Serve(settings) => cmd::serve::run(&settings),
        Command::Lint { file } => cmd::config::lint(&file),
        Command::Config(Config::Show(settings)) => cmd::config::show(&settings),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

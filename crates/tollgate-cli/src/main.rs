//! The one binary, `tollgate`: parses arguments, and hands over to the command.
#![expect(clippy::print_stderr, reason = "a command talks to whoever started it")]

mod args;
mod cmd;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Serve(serve) => cmd::serve::run(&serve),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::FAILURE
        }
    }
}

//! Compares Tollgate's stores with their rivals: time, memory and instructions per check in memory,
//! and what a real Redis can do.
//!
//! Every subcommand prints Markdown. `README.md` states what each number means and what is not
//! fair. Subcommands whose names start with `child-` are this program calling itself: a contender's
//! memory and instructions can only be measured in a process of its own.

mod args;
mod clocks;
mod closed;
mod contender;
mod counting_alloc;
mod id_memory;
mod instructions;
mod measure;
mod memory_use;
mod middleware;
mod operations;
mod postgres;
mod redis;
mod report;
mod server;
mod sqlite;
mod time;
mod usage;
mod workload;

use std::process::ExitCode;

use args::{Args, USAGE};

#[global_allocator]
static ALLOCATOR: counting_alloc::Counting = counting_alloc::Counting;

/// What a subcommand may fail with: a sentence for the person who ran it.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let Some((command, rest)) = words.split_first() else {
        return Err(USAGE.into());
    };
    match command.as_str() {
        memory_use::CHILD => return memory_use::child(rest),
        id_memory::CHILD => return id_memory::child(),
        instructions::CHILD => return instructions::child(rest),
        "redis" => {
            print!("{}", report::machine());
            return redis::print(rest);
        }
        middleware::CHILD => return middleware::child(rest),
        operations::COMMAND => return operations::print(rest),
        postgres::COMMAND => return postgres::print(rest),
        server::COMMAND => return server::print(rest),
        server::floor::CHILD => return server::floor::child(rest),
        server::reference::CHILD => return server::reference::child(rest),
        sqlite::COMMAND => return sqlite::print(rest),
        _ => {}
    }
    let args = Args::parse(rest)?;
    print!("{}", report::machine());
    match command.as_str() {
        "memory" => time::print(&args),
        "clock" => clocks::print(&args),
        "memory-use" => {
            memory_use::print(&args)?;
            id_memory::print()
        }
        "instructions" => instructions::print(&args),
        "tower" => middleware::print(&args),
        "all" => {
            time::print(&args)?;
            clocks::print(&args)?;
            memory_use::print(&args)?;
            id_memory::print()?;
            instructions::print(&args)?;
            middleware::print(&args)
        }
        other => Err(format!("unknown subcommand `{other}`\n{USAGE}")),
    }
}

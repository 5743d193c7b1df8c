//! `tollgate lint`, `tollgate config show` and `schema`: the configuration as the server reads it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints the configuration")]

use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

use tollgate_server::config::{Config, ConfigErrors, Sources};

use super::{Failed, code, unknown_variables};
use crate::args::Settings;

/// Validates files as the server would read them here: with the environment, which may have tokens
/// and secrets. The exit code.
pub(crate) fn lint(files: &[PathBuf]) -> Result<u8, Failed> {
    warn_of_variables();
    let mut result = 0;
    for file in files {
        match read(file)? {
            (name, Ok(config)) => {
                println!("{name}: valid, {}", counted(config.policies.iter().count(), "policies"));
            }
            (name, Err(errors)) => {
                eprintln!("{errors:#}\n\n{name}: {}", counted(errors.list.len(), "errors"));
                result = code::DENIED;
            }
        }
    }
    Ok(result)
}

/// The configuration of a file with its name; `-` is standard input.
fn read(file: &Path) -> Result<(String, Result<Config, ConfigErrors>), Failed> {
    if file != Path::new("-") {
        let config = Config::read(&Sources { flags: &[], file: Some(file) });
        return Ok((file.display().to_string(), config));
    }
    let (mut bytes, name) = (Vec::new(), "standard input");
    stdin().read_to_end(&mut bytes)?;
    Ok((name.to_owned(), Config::of_bytes(&[], Path::new(name), bytes)))
}

fn counted(number: usize, many: &str) -> String {
    match (number, many) {
        (1, "policies") => "1 policy".to_owned(),
        (1, "errors") => "1 error".to_owned(),
        _ => format!("{number} {many}"),
    }
}

fn warn_of_variables() {
    for warning in unknown_variables() {
        eprintln!("warning: {warning}");
    }
}

/// Prints every setting with its source, and every policy as a file would say it.
pub(crate) fn show(settings: &Settings) -> Result<(), Failed> {
    warn_of_variables();
    let flags = settings.flags();
    let config = Config::read(&Sources { flags: &flags, file: settings.config.as_deref() })?;
    for (name, value, source) in config.show() {
        println!("{name:<23} {value:<24} {source}");
    }
    println!("\npolicies:");
    for policy in config.policies.iter() {
        print!("  {}:\n{}", policy.name(), policy.written().indented(4));
    }
    Ok(())
}

/// Prints the JSON Schema of the file.
pub(crate) fn schema() -> Result<(), Failed> {
    println!("{}", serde_json::to_string_pretty(&tollgate_server::config::schema())?);
    Ok(())
}

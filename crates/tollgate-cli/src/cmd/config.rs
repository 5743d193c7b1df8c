//! `tollgate lint`, `tollgate config show` and `schema`: the configuration as the server reads it.
#![expect(clippy::print_stdout, reason = "it prints the configuration")]

use std::path::Path;

use tollgate_server::config::{Config, Sources};

use super::Failed;
use crate::args::Settings;

/// Validates a file as the server would read it here: with the environment, which may have tokens
/// and secrets.
pub(crate) fn lint(file: &Path) -> Result<(), Failed> {
    let config = Config::read(&Sources { flags: &[], file: Some(file) })?;
    println!("{}: valid, {} policies", file.display(), config.policies.iter().count());
    Ok(())
}

/// Prints every setting with its source, and every policy.
pub(crate) fn show(settings: &Settings) -> Result<(), Failed> {
    let flags = settings.flags();
    let config = Config::read(&Sources { flags: &flags, file: settings.config.as_deref() })?;
    for (name, value, source) in config.show() {
        println!("{name:<20} {value:<24} {source}");
    }
    for policy in config.policies.iter() {
        let name = policy.name();
        let shadow = if policy.is_shadow() { ", shadow" } else { "" };
        for limit in policy.limits() {
            let mode = limit.outage_mode().as_str();
            println!("policy {name}: {:?}, {mode} in an outage{shadow}", limit.rule());
        }
    }
    Ok(())
}

/// Prints the JSON Schema of the file.
pub(crate) fn schema() -> Result<(), Failed> {
    println!("{}", serde_json::to_string_pretty(&tollgate_server::config::schema())?);
    Ok(())
}

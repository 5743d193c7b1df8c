//! `tollgate completions` and `tollgate man`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Failed;
use crate::args::Args;

/// Prints completions for a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Failed> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "tollgate", &mut text);
    Ok(io::stdout().write_all(&text)?)
}

/// Prints the manual pages of all commands, or writes each into a file of its own.
pub(crate) fn manual(folder: Option<&Path>) -> Result<(), Failed> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, command.get_name(), &mut pages)?;
    if let Some(folder) = folder {
        fs::create_dir_all(folder)?;
        for (name, page) in pages {
            fs::write(folder.join(format!("{name}.1")), page)?;
        }
        return Ok(());
    }
    let text: Vec<u8> = pages.into_iter().flat_map(|(_, page)| page).collect();
    Ok(io::stdout().write_all(&text)?)
}

/// The page of a command, and those of its commands.
fn collect(
    command: &clap::Command,
    name: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), Failed> {
    let mut page = Vec::new();
    let own = command.clone().display_name(name.to_owned());
    let source = concat!("tollgate ", env!("CARGO_PKG_VERSION"));
    clap_mangen::Man::new(own).source(source).render(&mut page)?;
    pages.push((name.to_owned(), page));
    for inner in command.get_subcommands() {
        collect(inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    Ok(())
}

//! `tollgate completions` and `tollgate man`.

use std::io::{self, Write};

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

/// Prints the manual page.
pub(crate) fn manual_page() -> Result<(), Failed> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut text)?;
    Ok(io::stdout().write_all(&text)?)
}

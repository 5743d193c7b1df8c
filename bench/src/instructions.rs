//! `instructions`: instructions per check, counted by callgrind; the figure that noise cannot move.
//!
//! This program runs itself under `valgrind --tool=callgrind`, which counts only inside
//! `timed_checks`. Valgrind has no vDSO and may hide the time stamp counter, so a clock that calls
//! the kernel costs one system call there, whose instructions are not counted.

use std::env;
use std::process::Command;

use crate::Result;
use crate::args::Args;
use crate::contender::{self, Entry, Path, Setup};
use crate::measure;
use crate::report::Markdown;
use crate::workload::{self, Spread};

/// The subcommand with which this program calls itself.
pub(crate) const CHILD: &str = "child-instructions";

const SPREADS: [Spread; 3] = [Spread::Hot, Spread::TenThousand, Spread::TenThousandDefault];
const CHECKS: usize = 50_000;

/// Prints the table.
pub(crate) fn print(args: &Args) -> Result<()> {
    println!("### Instructions per check\n\nOne thread, under callgrind, loop included.\n");
    let mut table = Markdown::new(&["keys", "path"]);
    let contenders = args.contenders();
    contenders.iter().for_each(|entry| table.column(entry.title));
    table.print_head();
    for spread in SPREADS {
        for path in Path::ALL {
            if !args.wants_cell(&format!("{}-{}-1t", spread.id(), path.id())) {
                continue;
            }
            let mut row = vec![spread.title().to_owned(), path.id().to_owned()];
            for entry in &contenders {
                let count = run_child(entry, spread, path, args.wide)?;
                row.push(format!("{:.0}", count as f64 / CHECKS as f64));
            }
            table.print_row(&row);
        }
    }
    println!();
    Ok(())
}

/// The instructions of all checks together.
fn run_child(entry: &Entry, spread: Spread, path: Path, wide: bool) -> Result<u64> {
    let wide = wide.to_string();
    counted("timed_checks", &[CHILD, entry.id, spread.id(), path.id(), &wide])
}

/// The instructions inside a function of this program, called with these words.
pub(crate) fn counted(function: &str, words: &[&str]) -> Result<u64> {
    let program = env::current_exe().map_err(|error| format!("current_exe: {error}"))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", &format!("--toggle-collect=*{function}*")])
        .arg("--callgrind-out-file=/dev/null")
        .arg(program)
        .args(words)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {}", words.join(" "), errors.trim()));
    }
    collected(&errors).ok_or_else(|| format!("valgrind counted nothing: {}", errors.trim()))
}

/// The number in callgrind's line `==123== Collected : 456`.
fn collected(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("Collected : ")?;
    let count = rest.split_whitespace().next()?.parse().ok()?;
    (count > 0).then_some(count)
}

/// The other side of [`run_child`].
pub(crate) fn child(words: &[String]) -> Result<()> {
    let [id, spread, path, wide] = words else {
        return Err(format!("{CHILD} is for this program only"));
    };
    let path = Path::find(path).ok_or("unknown path")?;
    let spread = Spread::find(spread).ok_or("unknown spread")?;
    let wide = wide.parse().map_err(|_| "neither true nor false")?;
    let keys = workload::keys(spread.keys());
    let order = spread.order(CHECKS, 0);
    let setup = Setup::new(path, spread, wide);
    let table = contender::find(id)?.ready(&setup, &keys)?;
    let allowed = table.timed_checks(&keys, &order);
    measure::verify(allowed, order.len() as u64, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_count_of_callgrind() {
        assert_eq!(collected("==7== Collected : 1234\n==7==\n"), Some(1234));
        assert_eq!(collected("==7== Collected : 0\n"), None);
        assert_eq!(collected("nothing"), None);
    }
}

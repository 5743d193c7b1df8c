//! `memory-use`: bytes per key and allocations per check, each contender in a process of its own.
//!
//! Resident memory counts what the kernel provided, heap bytes what was requested: they differ
//! where a table is committed lazily, and by what the allocator adds.

use std::env;
use std::fs;
use std::process::Command;

use crate::Result;
use crate::args::Args;
use crate::contender::{self, Entry, Path, Setup};
use crate::counting_alloc;
use crate::measure;
use crate::report::Markdown;
use crate::workload::{self, Spread};

/// The subcommand with which this program calls itself.
pub(crate) const CHILD: &str = "child-memory-use";

/// A million keys.
const SPREAD: Spread = Spread::Million;
const CHECKS: usize = 100_000;
/// The size of a page on every platform this runs on: `/proc/self/statm` counts pages.
const PAGE_BYTES: i64 = 4096;

/// Prints the table.
pub(crate) fn print(args: &Args) -> Result<()> {
    println!(
        "### Memory\n\nAfter inserting {} keys of 15 bytes, without the caller's own copy of the \
         keys; allocations on a hit.\n",
        SPREAD.keys()
    );
    let mut table = Markdown::new(&["contender"]);
    table.column("resident bytes per key");
    table.column("heap bytes per key");
    table.column("allocations per check: allow");
    table.column("fresh");
    table.column("deny");
    table.print_head();
    for entry in args.contenders() {
        let measure = |path| run_child(entry, path, args.wide);
        let answers = Path::ALL.map(measure).into_iter().collect::<Result<Vec<_>>>()?;
        let [resident, heap, _] = answers.first().copied().unwrap_or_default();
        let bytes = [resident, heap].map(|bytes| format!("{bytes:.0}"));
        let allocations = answers.iter().map(|[_, _, calls]| format!("{calls:.2}"));
        let title = [entry.title.to_owned()];
        let row: Vec<String> = title.into_iter().chain(bytes).chain(allocations).collect();
        table.print_row(&row);
    }
    println!();
    Ok(())
}

/// Resident bytes per key, heap bytes per key, allocations per check.
fn run_child(entry: &Entry, path: Path, wide: bool) -> Result<[f64; 3]> {
    let program = env::current_exe().map_err(|error| format!("current_exe: {error}"))?;
    let output = Command::new(program)
        .args([CHILD, entry.id, path.id(), &wide.to_string()])
        .output()
        .map_err(|error| format!("{CHILD}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
    numbers.try_into().map_err(|_| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("{CHILD} {}: {}", entry.id, errors.trim())
    })
}

/// The other side of [`run_child`].
pub(crate) fn child(words: &[String]) -> Result<()> {
    let [id, path, wide] = words else {
        return Err(format!("{CHILD} is for this program only"));
    };
    let path = Path::find(path).ok_or("unknown path")?;
    let wide = wide.parse().map_err(|_| "neither true nor false")?;
    let entry = contender::find(id)?;
    let keys = workload::keys(SPREAD.keys());
    let order = SPREAD.order(CHECKS, 0);

    let before = resident_bytes()?;
    let setup = Setup::new(path, SPREAD, wide);
    let (table, heap) = counting_alloc::count(|| entry.ready(&setup, &keys));
    let table = table?;
    let resident = resident_bytes()? - before;
    let (allowed, checks) = counting_alloc::count(|| table.timed_checks(&keys, &order));
    measure::verify(allowed, order.len() as u64, path)?;

    let per_key = |bytes: i64| bytes as f64 / keys.len() as f64;
    let allocations = checks.calls as f64 / order.len() as f64;
    println!("{} {} {allocations}", per_key(resident), per_key(heap.live_bytes));
    Ok(())
}

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> Result<i64> {
    let statm =
        fs::read_to_string("/proc/self/statm").map_err(|error| format!("statm: {error}"))?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<i64>().ok());
    Ok(pages.ok_or("statm: no second field")? * PAGE_BYTES)
}

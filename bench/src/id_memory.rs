//! Request ids in memory at the rate that the defaults promise: 10,000 charges per second, each
//! with an id of its own, for twice as long as ids are kept. Time is given to the store: the run
//! takes seconds.

use std::env;
use std::process::Command;
use std::time::Instant;

use tollgate::store::{Memory, Store, SyncStore};
use tollgate::{Admission, Limit, Quota, RequestId};

use crate::Result;
use crate::counting_alloc;
use crate::memory_use::resident_bytes;
use crate::report::Markdown;

/// The subcommand with which this program calls itself: memory is measured in a fresh process.
pub(crate) const CHILD: &str = "child-id-memory";

const KEYS: u64 = 10_000;
const PER_SECOND: u64 = 10_000;
/// As long as ids are kept by default.
const KEPT_SECONDS: u64 = 300;
/// When the run begins, in microseconds.
const START: u64 = 1_800_000_000_000_000;

/// Prints the table.
pub(crate) fn print() -> Result<()> {
    println!(
        "### Request ids\n\n{PER_SECOND} per second on {KEYS} keys of a default store, each of 32 \
         bytes, after {KEPT_SECONDS} s and after twice as long. The keys are in the bytes.\n"
    );
    let mut table = Markdown::new(&["after"]);
    let columns = [
        "ids kept",
        "forgotten early",
        "resident bytes per id",
        "heap bytes per id",
        "ns per charge",
    ];
    columns.into_iter().for_each(|column| table.column(column));
    table.print_head();
    let program = env::current_exe().map_err(|error| format!("current_exe: {error}"))?;
    let output = Command::new(program).arg(CHILD).output();
    let output = output.map_err(|error| format!("{CHILD}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let cells: Vec<String> = line.split(' ').map(str::to_owned).collect();
        table.print_row(&cells);
    }
    println!();
    Ok(())
}

/// The other side of [`print`]: a line for each half of the run.
pub(crate) fn child() -> Result<()> {
    let text = |error: tollgate::Error| error.to_string();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("user:{key:010}")).collect();
    let limit = Limit::gcra("bench", Quota::per_second(1_000_000)).map_err(text)?;
    let before = resident_bytes()?;
    let mut live = 0;
    let (memory, heap) = counting_alloc::count(Memory::new);
    live += heap.live_bytes;
    for half in [0, 1] {
        let (half, heap) = counting_alloc::count(|| run(&memory, &limit, &keys, half));
        let half = half?;
        live += heap.live_bytes;
        let per_id = |bytes: i64| bytes as f64 / half.kept as f64;
        println!(
            "{}s {} {} {:.1} {:.1} {:.0}",
            half.seconds,
            half.kept,
            half.forgotten,
            per_id(half.resident - before),
            per_id(live),
            half.ns
        );
    }
    Ok(())
}

/// What the store held at the end of a half.
struct Half {
    seconds: u64,
    kept: usize,
    forgotten: u64,
    resident: i64,
    ns: f64,
}

/// The charges of as long as ids are kept; fails if one is not granted.
fn run(memory: &Memory, limit: &Limit, keys: &[String], half: u64) -> Result<Half> {
    let text = |error: tollgate::Error| error.to_string();
    let count = PER_SECOND * KEPT_SECONDS;
    let start = Instant::now();
    let numbers = half * count..(half + 1) * count;
    for (number, key) in numbers.zip(keys.iter().cycle()) {
        let id = format!("{:032x}", u128::from(number) << 64 | u128::from(number));
        let charges = [limit.charge(key)];
        let admission = Admission::of(&charges).request_id(RequestId::new(&id).map_err(text)?);
        let at = START + number * 1_000_000 / PER_SECOND;
        let evidence = memory.admit_sync(&admission, at).map_err(text)?;
        if evidence.replayed.is_some() {
            return Err("an id was made twice".into());
        }
    }
    let ns = start.elapsed().as_nanos() as f64 / count as f64;
    let usage = memory.usage();
    let usage = usage.first().ok_or("the store knows no policy")?;
    Ok(Half {
        seconds: (half + 1) * KEPT_SECONDS,
        kept: usage.request_ids,
        forgotten: usage.forgotten_request_ids,
        resident: resident_bytes()?,
        ns,
    })
}

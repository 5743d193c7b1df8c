//! `memory`: nanoseconds per check, for every cell and contender.
//!
//! Cells that need the same tables share them: the tables of all contenders are built, all cells
//! on them are timed in interleaved rounds, then they are dropped.

use crate::Result;
use crate::args::Args;
use crate::contender::{Entry, OURS, Path, Setup, Table};
use crate::measure;
use crate::report::Markdown;
use crate::workload::{self, Spread};

const THREADS: [usize; 2] = [1, 2];

/// One line of the table.
#[derive(Clone, Copy, Debug)]
struct Cell {
    spread: Spread,
    path: Path,
    threads: usize,
}

impl Cell {
    fn id(self) -> String {
        format!("{}-{}-{}t", self.spread.id(), self.path.id(), self.threads)
    }
}

/// A contender whose keys are inserted.
type Ready = (&'static Entry, Box<dyn Table>);

/// Prints the table.
pub(crate) fn print(args: &Args) -> Result<()> {
    let contenders = args.contenders();
    println!(
        "### Time per check{}\n\n{} of {} interleaved rounds of {} checks per thread, in ns of \
         wall time per check (2 threads: over the checks of both).\n\
         In brackets: times Tollgate's.\n",
        if args.wide { ", wide quotas" } else { "" },
        args.pick.title(),
        args.rounds,
        args.ops
    );
    let mut table = Markdown::new(&["keys", "path", "threads"]);
    contenders.iter().for_each(|entry| table.column(entry.title));
    table.print_head();
    for group in groups(args) {
        let Some(first) = group.first() else { continue };
        let keys = workload::keys(first.spread.keys());
        let setup = Setup::new(first.path, first.spread, args.wide);
        let ready = |entry: &&'static Entry| Ok((*entry, entry.ready(&setup, &keys)?));
        let tables: Vec<Ready> = contenders.iter().map(ready).collect::<Result<_>>()?;
        for cell in &group {
            table.print_row(&row(args, *cell, &tables, &keys)?);
        }
    }
    println!();
    Ok(())
}

/// The selected cells, those with the same tables and the same path together.
fn groups(args: &Args) -> Vec<Vec<Cell>> {
    let table = |spread: Spread| (spread.keys(), spread.has_default_table());
    let mut wanted = Spread::ALL.map(table).to_vec();
    wanted.dedup();
    let group = |(wanted, path)| {
        let spreads = Spread::ALL.into_iter().filter(move |spread| table(*spread) == wanted);
        let cells =
            spreads.flat_map(move |spread| THREADS.map(|threads| Cell { spread, path, threads }));
        cells.filter(|cell| args.wants_cell(&cell.id())).collect()
    };
    let pairs = wanted.into_iter().flat_map(|one| Path::ALL.map(|path| (one, path)));
    pairs.map(group).collect()
}

fn row(args: &Args, cell: Cell, tables: &[Ready], keys: &[String]) -> Result<Vec<String>> {
    let orders: Vec<Vec<u32>> =
        (0..cell.threads).map(|thread| cell.spread.order(args.ops, thread)).collect();
    let mut samples = vec![Vec::new(); tables.len()];
    for round in 0..args.rounds {
        for place in measure::rotation(tables.len(), round) {
            let (entry, table) = &tables[place];
            let ns = measure::run(&**table, keys, &orders, cell.path)
                .map_err(|error| format!("{} in {}: {error}", entry.id, cell.id()))?;
            samples[place].push(ns);
        }
    }
    let picked = samples.into_iter().map(|samples| args.pick.of(samples));
    let picked: Vec<f64> = picked.collect();
    let ours = tables.iter().position(|(entry, _)| entry.id == OURS);
    let ours = ours.map(|place| picked[place]);
    let head =
        [cell.spread.title().to_owned(), cell.path.id().to_owned(), cell.threads.to_string()];
    let figures = picked.iter().map(|&ns| figure(ns, ours));
    Ok(head.into_iter().chain(figures).collect())
}

/// `97 (1.9×)`, or without the brackets where there is nothing to compare with.
fn figure(ns: f64, ours: Option<f64>) -> String {
    let digits = if ns < 10.0 { 1 } else { 0 };
    match ours {
        Some(ours) if ours != ns => format!("{ns:.digits$} ({:.2}×)", ns / ours),
        _ => format!("{ns:.digits$}"),
    }
}

//! Growth: the cost of a decision with more keys, more policies and more connections.

use super::bed::{Bed, Cell, KEYS, Sample};
use super::kinds::Protocol;
use super::table::{Figure, mebibytes};
use super::target::Target;
use crate::Result;
use crate::measure::rotation;
use crate::report::Markdown;

struct Row {
    what: &'static str,
    size: u64,
    protocol: &'static str,
    cell: Cell,
    samples: Vec<Sample>,
}

/// Runs the selected cells.
pub(super) fn run(bed: &Bed) -> Result<Option<String>> {
    let mut rows = rows();
    rows.retain(|row| bed.options.wants(&row.cell.id));
    if rows.is_empty() {
        return Ok(None);
    }
    for round in 0..bed.options.rounds {
        for place in rotation(rows.len(), round) {
            let row = &mut rows[place];
            let sample = bed.run(&row.cell)?;
            eprintln!("round {round}: {}: {sample:?}", row.cell.id);
            row.samples.push(sample);
        }
    }
    let mut table = Markdown::new(&["what", "protocol"]);
    let columns = ["decisions/s", "CPU µs per decision", "resident MiB"];
    columns.into_iter().for_each(|column| table.column(column));
    let mut text = table.head();
    for row in &rows {
        let figure = |of: fn(&Sample) -> f64| Figure::of(row.samples.iter().map(of));
        text += &table.row(&[
            format!("{} {}", super::table::grouped(row.size as f64), row.what),
            row.protocol.to_owned(),
            figure(|sample| sample.per_second).whole(),
            figure(|sample| sample.cpu).text(),
            mebibytes(figure(|sample| sample.resident).median),
        ]);
    }
    Ok(Some(text + "\n"))
}

fn rows() -> Vec<Row> {
    let cell = |id: String, protocol, connections| Cell {
        id,
        target: Target::Tollgate,
        protocol,
        keys: KEYS,
        policies: 1,
        connections,
        pipeline: 1,
    };
    let mut rows = Vec::new();
    for size in [1, 10, 100] {
        let id = format!("growth-policies-{size}");
        let cell = Cell { policies: size, ..cell(id, Protocol::Http, 50) };
        rows.push(row(if size == 1 { "policy" } else { "policies" }, size, "HTTP", cell));
    }
    for (protocol, kind) in [("HTTP", Protocol::Http), ("RESP", Protocol::Resp)] {
        for size in [1, 1_000] {
            let id = format!("growth-connections-{}-{size}", protocol.to_lowercase());
            let what = if size == 1 { "connection" } else { "connections" };
            rows.push(row(what, size, protocol, cell(id, kind, size)));
        }
    }
    rows
}

fn row(what: &'static str, size: u64, protocol: &'static str, cell: Cell) -> Row {
    Row { what, size, protocol, cell, samples: Vec::new() }
}

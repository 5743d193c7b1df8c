//! Latency at a fixed rate: an open loop at half of what each server answered at most in this run.

use super::bed::Bed;
use super::kinds::Protocol;
use super::main_cells::{self, Compared, GROUPS};
use super::open_loop::{self, Load};
use super::table::{Figure, grouped};
use super::target::Target;
use crate::Result;
use crate::measure::rotation;
use crate::report::Markdown;

/// The percentiles of the table, in tenths of a percent.
const SHOWN: [(&str, usize); 3] = [("p50", 500), ("p99", 990), ("p99.9", 999)];

struct Row {
    id: String,
    protocol: &'static str,
    load: Load,
    /// The percentiles of [`SHOWN`] of each round, in microseconds.
    samples: Vec<[f64; 3]>,
}

/// Runs the selected cells.
pub(super) fn run(bed: &Bed, compared: &[Compared]) -> Result<Option<String>> {
    let mut rows = rows(bed, compared)?;
    if rows.is_empty() {
        return Ok(None);
    }
    for round in 0..bed.options.rounds {
        for place in rotation(rows.len(), round) {
            let row = &mut rows[place];
            row.load.prefix = bed.prefix();
            let latencies = bed.runtime.block_on(open_loop::run(&row.load));
            let latencies = latencies.map_err(|error| format!("{}: {error}", row.id))?;
            let sample = SHOWN.map(|(_, rank)| percentile(&latencies, rank));
            eprintln!("round {round}: {}: {sample:?} µs", row.id);
            row.samples.push(sample);
        }
    }
    let mut table = Markdown::new(&["protocol", "server"]);
    table.column("requests/s");
    SHOWN.into_iter().for_each(|(column, _)| table.column(column));
    let mut text = table.head();
    for row in &rows {
        let mut cells = vec![row.protocol.to_owned(), row.load.target.title().to_owned()];
        cells.push(grouped(row.load.rate as f64));
        for place in 0..SHOWN.len() {
            cells.push(Figure::of(row.samples.iter().map(|one| one[place])).text());
        }
        text += &table.row(&cells);
    }
    Ok(Some(text + "\n"))
}

/// The smallest latency that covers this share, in microseconds.
fn percentile(latencies: &[u64], tenths: usize) -> f64 {
    let rank = (latencies.len() * tenths).div_ceil(1_000).max(1);
    latencies.get(rank - 1).map_or(f64::NAN, |nanos| *nanos as f64 / 1e3)
}

fn rows(bed: &Bed, compared: &[Compared]) -> Result<Vec<Row>> {
    let protocols =
        [("grpc", Protocol::Grpc), ("http", Protocol::Http), ("resp-1", Protocol::Resp)];
    let mut rows = Vec::new();
    for (group, protocol) in protocols {
        let Some(group) = GROUPS.iter().find(|one| one.id == group) else { continue };
        for target in group.targets.iter().copied().filter(|one| *one != Target::TollgateStream) {
            let id = format!("latency-{}-{}", group.id, target.id());
            if !bed.options.wants(&id) {
                continue;
            }
            let seen = compared.iter().find(|one| one.group.id == group.id);
            let rate = match seen.and_then(|seen| seen.rate(target)) {
                Some(rate) => rate,
                // Not part of this run: tried once.
                None => match main_cells::cell(group.id, target) {
                    Some(cell) => bed.run(&cell)?.per_second,
                    None => continue,
                },
            };
            let load = Load {
                target,
                protocol,
                addr: bed.addr(target, protocol),
                sha: bed.sha.clone(),
                prefix: String::new(),
                rate: (rate / 2.0) as u64,
                time: bed.options.time,
            };
            rows.push(Row { id, protocol: group.title, load, samples: Vec::new() });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_smallest_latency_that_covers_its_share() {
        let latencies: Vec<u64> = (1..=1_000).map(|number| number * 1_000).collect();
        assert_eq!([500, 990, 999].map(|rank| percentile(&latencies, rank)), [500.0, 990.0, 999.0]);
        assert_eq!(percentile(&[7_000], 999), 7.0);
        assert!(percentile(&[], 500).is_nan());
    }
}

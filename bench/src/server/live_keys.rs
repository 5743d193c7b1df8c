//! Growth: the cost of a decision among 1,000, 100,000 and 5,000,000 live keys.
//!
//! The keys have a server of their own and a limit whose units come back once an hour, so that all
//! that was spent in the run is still there at its end.

use tollgate_test_servers::Server;
use tollgate_test_servers::resp::Reply;

use super::audit::{compare, spent};
use super::bed::{Bed, Sample, digits, key};
use super::kinds::{Kind, Protocol, SLOW, SLOW_BURST, addr};
use super::load::{Counted, Resp, redis_benchmark};
use super::table::{Figure, grouped, mebibytes};
use super::target::RANDOM;
use crate::Result;
use crate::measure::rotation;
use crate::report::Markdown;
use crate::usage::Usage;

/// Commands that are sent to find the rate.
const TRIAL: u64 = 100_000;
const PIPELINE: u64 = 16;

struct Row {
    keys: u64,
    samples: Vec<Sample>,
    /// What was sent, over all rounds.
    sent: Counted,
}

/// Runs the cells.
pub(super) fn run(bed: &Bed) -> Result<Option<String>> {
    let most = if bed.options.quick { 200_000 } else { 5_000_000 };
    let sizes = [1_000, 100_000, most];
    let wanted = sizes.into_iter().filter(|size| bed.options.wants(&id(*size)));
    let sent = Counted { requests: 0, seconds: 0.0, failed: 0, under_way: 0 };
    let mut rows: Vec<Row> = wanted.map(|keys| Row { keys, samples: Vec::new(), sent }).collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let mut servers = Vec::new();
    for row in &mut rows {
        let server = Kind::tollgate(&bed.programs, "'memory:?max_keys=6000000'").start()?;
        // Each key exists before anything is measured.
        check(&server, row)?;
        row.sent.requests += row.keys;
        servers.push(server);
    }
    for round in 0..bed.options.rounds {
        for place in rotation(rows.len(), round) {
            let row = &mut rows[place];
            let sample = measure(bed, &servers[place], row)?;
            eprintln!("round {round}: {}: {sample:?}", id(row.keys));
            row.samples.push(sample);
        }
    }
    for (row, server) in rows.iter().zip(&servers) {
        check(server, row).map_err(|error| format!("{}: {error}", id(row.keys)))?;
    }
    let mut table = Markdown::new(&["live keys"]);
    let columns = ["decisions/s", "CPU µs per decision", "resident MiB"];
    columns.into_iter().for_each(|column| table.column(column));
    let mut text = table.head();
    for row in &rows {
        let figure = |of: fn(&Sample) -> f64| Figure::of(row.samples.iter().map(of));
        text += &table.row(&[
            grouped(row.keys as f64),
            figure(|sample| sample.per_second).whole(),
            figure(|sample| sample.cpu).text(),
            mebibytes(figure(|sample| sample.resident).median),
        ]);
    }
    Ok(Some(text + "\n"))
}

fn id(keys: u64) -> String {
    format!("growth-keys-{keys}")
}

/// Adds up what the keys have spent; this takes a unit of each.
fn check(server: &Server, row: &Row) -> Result<()> {
    let look = |number| {
        let words = ["TG.ACQUIRE", SLOW, &key("live", number)];
        words.map(str::to_owned).to_vec()
    };
    let read = |reply: &Reply| {
        let left = u64::try_from(reply.elements().get(2)?.integer()?).ok()?;
        SLOW_BURST.checked_sub(left + 1)
    };
    compare(spent(addr(server, Protocol::Resp), row.keys, look, read)?, &row.sent)
}

fn measure(bed: &Bed, server: &Server, row: &mut Row) -> Result<Sample> {
    let key = format!("live:{RANDOM}");
    debug_assert_eq!(digits(0).len(), 12, "as redis-benchmark writes numbers");
    let words = ["TG.ACQUIRE", SLOW, &key];
    let addr = addr(server, Protocol::Resp);
    let load = Resp { addr, words: &words, keys: row.keys, connections: 50, pipeline: PIPELINE };
    let trial = redis_benchmark(&bed.programs, load, TRIAL)?;
    row.sent.requests += trial.requests;
    row.sent.under_way += trial.under_way;
    let rate = trial.requests as f64 / trial.seconds.max(1e-3);
    let count = (rate * bed.options.time.as_secs_f64()) as u64 / PIPELINE * PIPELINE;
    let usage = Usage::of(server.pid());
    let before = usage.cpu_ns()?;
    let counted = redis_benchmark(&bed.programs, load, count.max(PIPELINE))?;
    let used = usage.cpu_ns()?.saturating_sub(before);
    row.sent.requests += counted.requests;
    row.sent.under_way += counted.under_way;
    let decisions = counted.requests as f64;
    Ok(Sample {
        per_second: decisions / counted.seconds,
        cpu: used as f64 / 1e3 / decisions,
        resident: usage.resident() as f64,
    })
}

//! Latency at a fixed rate: an open loop, by `tollgate bench`.
//!
//! The rate is half of what the server answered at most in this run. A request is due at its
//! instant, whatever became of those before, and its latency counts from there.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tollgate_test_servers::{Server, server_command};

use super::bed::Bed;
use super::kinds::{Protocol, addr};
use super::main_cells::{self, Compared};
use super::table::{Figure, grouped};
use super::target::Target;
use crate::Result;
use crate::measure::rotation;
use crate::report::Markdown;

/// The percentiles of the table.
const SHOWN: [&str; 4] = ["p50", "p99", "p99.9", "max"];
/// Beside them: the share of the requests that were sent in time to be counted, in percent.
const SENT: &str = "sent %";
/// Connections of the load.
const CONNECTIONS: &str = "32";

struct Row {
    id: String,
    title: String,
    protocol: &'static str,
    addr: String,
    /// Where limits are asked for.
    limits: Option<String>,
    rate: u64,
    /// The percentiles of [`SHOWN`] of each round, in microseconds, and [`SENT`].
    samples: Vec<[f64; 5]>,
}

/// Runs the selected cells: Tollgate on each protocol, and the floors.
pub(super) fn run(bed: &Bed, compared: &[Compared]) -> Result<Option<String>> {
    let mut rows = rows(bed, compared)?;
    if rows.is_empty() {
        return Ok(None);
    }
    for round in 0..bed.options.rounds {
        for place in rotation(rows.len(), round) {
            let row = &mut rows[place];
            let sample = measure(bed, row).map_err(|error| format!("{}: {error}", row.id))?;
            eprintln!("round {round}: {}: {sample:?} µs", row.id);
            row.samples.push(sample);
        }
    }
    let mut table = Markdown::new(&["protocol", "server"]);
    table.column("requests/s");
    SHOWN.into_iter().chain([SENT]).for_each(|column| table.column(column));
    let mut text = table.head();
    for row in &rows {
        let mut cells = vec![row.protocol.to_owned(), row.title.clone()];
        cells.push(grouped(row.rate as f64));
        for place in 0..=SHOWN.len() {
            cells.push(Figure::of(row.samples.iter().map(|one| one[place])).text());
        }
        text += &table.row(&cells);
    }
    Ok(Some(text + "\n"))
}

fn rows(bed: &Bed, compared: &[Compared]) -> Result<Vec<Row>> {
    let targets = [Target::Tollgate, Target::FloorThreads, Target::FloorCurrent];
    let protocols = [
        ("grpc", "grpc", Protocol::Grpc),
        ("http", "http", Protocol::Http),
        ("resp-1", "resp", Protocol::Resp),
    ];
    let mut rows = Vec::new();
    for (group, protocol, kind) in protocols {
        for target in targets {
            let id = format!("latency-{protocol}-{}", target.id());
            let (true, Some(server)) = (bed.options.wants(&id), bed.server(target)) else {
                continue;
            };
            let seen = compared.iter().find(|one| one.group.id == group);
            let rate = match seen.and_then(|seen| seen.rate(target)) {
                Some(rate) => rate,
                // Not part of this run: tried once.
                None => match main_cells::cell(group, target) {
                    Some(cell) => bed.run(&cell)?.per_second,
                    None => continue,
                },
            };
            let at = |server: &Server, protocol| addr(server, protocol).to_string();
            let limits = (target == Target::Tollgate).then(|| at(server, Protocol::Http));
            rows.push(Row {
                id,
                title: target.title().to_owned(),
                protocol,
                addr: at(server, kind),
                limits,
                rate: (rate / 2.0) as u64,
                samples: Vec::new(),
            });
        }
    }
    Ok(rows)
}

fn measure(bed: &Bed, row: &Row) -> Result<[f64; 5]> {
    let time = bed.options.time.max(Duration::from_secs(1));
    let mut command = server_command(&bed.programs.tollgate).map_err(|error| error.to_string())?;
    command.args(["bench", "--json", "--url", &format!("{}://{}", row.protocol, row.addr)]);
    let limits = row.limits.as_ref().unwrap_or(&row.addr);
    command.args(["--server", &format!("http://{limits}"), "--policy", "bench"]);
    command.args(["--rate", &row.rate.to_string(), "--duration", &format!("{}s", time.as_secs())]);
    command.args(["--connections", CONNECTIONS, "--keys", "10000"]).stdin(Stdio::null());
    let output = command.output().map_err(|error| error.to_string())?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let number = |name: &str| report.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (due, sent, allowed) = (number("due"), number("sent"), number("allowed"));
    if allowed == 0 || allowed != sent {
        return Err(format!("{allowed} of {sent} requests were allowed: {report}"));
    }
    let admitted = report.pointer("/quota/admitted").and_then(Value::as_u64);
    if row.limits.is_some() && admitted != Some(allowed) {
        return Err(format!("{admitted:?} units were admitted by {allowed} requests: {report}"));
    }
    let latency = |name| report.pointer(&format!("/latency_us/{name}")).and_then(Value::as_f64);
    let mut sample = [100.0 * sent as f64 / due.max(1) as f64; 5];
    for (place, name) in sample.iter_mut().zip(SHOWN) {
        *place = latency(name).ok_or_else(|| format!("{name} is missing: {report}"))?;
    }
    Ok(sample)
}

//! The generators of load: programs of others, run for a time, and their own counts.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_test_servers::server_command;

use super::install::Programs;
use crate::Result;

/// A program that does not end by itself is stopped by `timeout` this long after its time.
const GRACE: Duration = Duration::from_secs(30);

/// What a generator counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// Requests that were answered.
    pub(super) requests: u64,
    /// How long it took.
    pub(super) seconds: f64,
    /// Requests that were answered in another way than allowed, or not at all.
    pub(super) failed: u64,
    /// Requests that may have been decided, and not counted.
    pub(super) under_way: u64,
}

impl Counted {
    /// Of requests that hold several decisions each.
    pub(super) const fn times(mut self, decisions: u64) -> Self {
        self.requests *= decisions;
        self.failed *= decisions;
        self.under_way *= decisions;
        self
    }
}

/// `h2load`: one message over and over, on connections with several streams each.
pub(super) fn h2load(
    programs: &Programs,
    url: &str,
    message: &Path,
    (connections, streams): (u64, u64),
    time: Duration,
) -> Result<Counted> {
    let mut command = command(&programs.h2load, time)?;
    command.args(["-t1", "-c", &connections.to_string(), "-m", &streams.to_string()]);
    let millis = format!("{}ms", time.as_millis());
    command.args(["-D", &millis, "-H", "content-type: application/grpc"]);
    command.args(["-H", "te: trailers", "-d"]).arg(message).arg(url);
    let started = Instant::now();
    let text = output(&mut command)?;
    let line = |head: &str| {
        let line = text.lines().find(|line| line.starts_with(head));
        line.ok_or_else(|| format!("h2load printed no line of {head}\n{text}"))
    };
    let requests = number_before(line("requests:")?, " done")?;
    let succeeded = number_before(line("status codes:")?, " 2xx")?;
    // It prints the rate over the time that was asked for.
    let rate = line("finished in")?.split(',').nth(1).unwrap_or_default();
    let rate: f64 = rate.trim().trim_end_matches(" req/s").parse().unwrap_or(0.0);
    let seconds = if rate > 0.0 { requests as f64 / rate } else { started.elapsed().as_secs_f64() };
    let failed = requests.saturating_sub(succeeded);
    Ok(Counted { requests, seconds, failed, under_way: connections * streams })
}

/// `wrk`: requests that a script makes.
pub(super) fn wrk(
    programs: &Programs,
    addr: SocketAddr,
    script: &Path,
    connections: u64,
    time: Duration,
) -> Result<Counted> {
    let mut command = command(&programs.wrk, time)?;
    let whole = Duration::from_secs(time.as_secs().max(1));
    command.args(["-t1", "-c", &connections.to_string(), "-d", &seconds(whole), "-s"]);
    command.arg(script).arg(format!("http://{addr}/"));
    let text = output(&mut command)?;
    // `186273 requests in 2.00s, 41.92MB read`
    let line = text.lines().find(|line| line.contains(" requests in "));
    let line = line.ok_or_else(|| format!("wrk printed no count\n{text}"))?;
    let requests = number_before(line, " requests in ")?;
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:"));
    let rate: f64 = rate.and_then(|rate| rate.trim().parse().ok()).unwrap_or(0.0);
    let errors = text.lines().find_map(|line| line.trim().strip_prefix("Socket errors:"));
    let failed =
        text.lines().find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses:"));
    let failed = failed.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    match errors {
        Some(errors) => Err(format!("wrk had socket errors:{errors}")),
        None => Ok(Counted {
            requests,
            seconds: requests as f64 / rate.max(1.0),
            failed,
            under_way: connections,
        }),
    }
}

/// How `redis-benchmark` is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resp<'a> {
    pub(super) addr: SocketAddr,
    /// The command; `__rand_int__` in it is a number below `keys`.
    pub(super) words: &'a [&'a str],
    pub(super) keys: u64,
    pub(super) connections: u64,
    pub(super) pipeline: u64,
}

/// `redis-benchmark`: a number of commands.
pub(super) fn redis_benchmark(programs: &Programs, load: Resp<'_>, count: u64) -> Result<Counted> {
    let mut command = command(&programs.redis_benchmark, GRACE)?;
    command.args(["-h", "127.0.0.1", "-p", &load.addr.port().to_string(), "--csv"]);
    command.args(["-n", &count.to_string(), "-r", &load.keys.to_string()]);
    command.args(["-c", &load.connections.to_string(), "-P", &load.pipeline.to_string()]);
    command.args(load.words);
    let text = output(&mut command)?;
    // `"the command","98039.22","0.271",…` below the names of the columns.
    let row = text.lines().rfind(|line| line.starts_with('"')).unwrap_or_default();
    let cells: Vec<&str> = row.split("\",\"").collect();
    let rate: f64 = cells.get(1).and_then(|rate| rate.parse().ok()).unwrap_or(0.0);
    if text.contains("Error from server") || text.contains("rror:") || rate <= 0.0 {
        return Err(format!("redis-benchmark: {text}"));
    }
    // Whole pipelines are sent.
    let sent = count.div_ceil(load.pipeline) * load.pipeline;
    let under_way = sent - count + load.connections * load.pipeline;
    Ok(Counted { requests: count, seconds: count as f64 / rate, failed: 0, under_way })
}

/// A program that ends with this one, and in time.
fn command(program: &Path, time: Duration) -> Result<Command> {
    let mut command = server_command("timeout").map_err(|error| error.to_string())?;
    command.args(["--kill-after=5", &seconds(time + GRACE)]).arg(program).stdin(Stdio::null());
    Ok(command)
}

fn seconds(time: Duration) -> String {
    format!("{}", time.as_secs_f64())
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}\n{text}{errors}", output.status))
}

/// The number that stands before a word: `5000 done`.
fn number_before(line: &str, word: &str) -> Result<u64> {
    let head = line.split(word).next().filter(|head| head.len() < line.len());
    let digits = head.and_then(|head| head.rsplit([' ', ',']).find(|part| !part.is_empty()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("no number before `{word}` in: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_lines_of_generators() {
        let line = "requests: 5000 total, 5100 started, 4999 done, 4998 succeeded, 1 failed";
        assert_eq!(number_before(line, " done"), Ok(4_999));
        assert_eq!(number_before("status codes: 4998 2xx, 0 3xx", " 2xx"), Ok(4_998));
        assert_eq!(number_before("  186273 requests in 2.00s", " requests in "), Ok(186_273));
        assert!(number_before(line, " lost").is_err());
    }
}

//! The options of `redis`.

use std::time::Duration;

use crate::Result;

/// How the subcommand is called.
const USAGE: &str = "\
usage: tollgate-bench redis [options]
  --rounds N      interleaved rounds per case (default 5)
  --seconds S     seconds per case and round, decimals allowed (default 1.5)
  --workers N     threads of the runtime that the callers run on (default: one per core;
                  on the cluster one, as its ceiling has)
  --cases A,B     only cases whose name contains one of these, e.g. a-,b-";

/// The options.
#[derive(Debug)]
pub(super) struct Options {
    /// Interleaved rounds.
    pub(super) rounds: usize,
    /// How long a case runs in each round.
    pub(super) time: Duration,
    /// Threads of the runtime; `None` for one per core.
    pub(super) workers: Option<usize>,
    cases: Vec<String>,
}

impl Options {
    /// Reads the words after the subcommand.
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let time = Duration::from_millis(1_500);
        let mut options = Self { rounds: 5, time, workers: None, cases: Vec::new() };
        for pair in words.chunks(2) {
            let [flag, value] = pair else { return Err(USAGE.into()) };
            let wrong = || format!("`{flag} {value}` is not understood\n{USAGE}");
            match flag.as_str() {
                "--rounds" => options.rounds = at_least_one(value).ok_or_else(wrong)?,
                "--workers" => options.workers = Some(at_least_one(value).ok_or_else(wrong)?),
                "--seconds" => {
                    let seconds: f64 = value.parse().map_err(|_| wrong())?;
                    options.time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
                }
                "--cases" => options.cases = value.split(',').map(str::to_owned).collect(),
                _ => return Err(wrong()),
            }
        }
        Ok(options)
    }

    /// Whether the case of this name is selected.
    pub(super) fn wants(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|part| case.contains(part))
    }
}

fn at_least_one(value: &str) -> Option<usize> {
    value.parse().ok().filter(|number| *number > 0)
}

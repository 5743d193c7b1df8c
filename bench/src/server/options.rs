//! The options of `server`.

use std::path::PathBuf;
use std::time::Duration;

use crate::Result;

/// How the subcommand is called.
const USAGE: &str = "\
usage: tollgate-bench server [options]
  --rounds N      interleaved rounds per cell (default 5)
  --seconds S     seconds per cell and round, whole (default 2)
  --cells A,B     only cells whose name contains one of these, e.g. grpc,resp-16,latency,
                  growth,stores,reference,sliding
  --quick         2 rounds of 1 second: a smoke test, not a measurement
  --tollgate PATH this program of Tollgate instead of the release build of this checkout
  --write         writes the tables into docs/performance.md, and docs/performance.svg";

/// The options.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Interleaved rounds.
    pub(super) rounds: usize,
    /// How long a cell runs in each round.
    pub(super) time: Duration,
    /// The program of Tollgate; `None` for the release build of this checkout.
    pub(super) tollgate: Option<PathBuf>,
    /// Whether little is measured.
    pub(super) quick: bool,
    /// Whether the page is written.
    pub(super) write: bool,
    cells: Vec<String>,
}

impl Options {
    /// Reads the words after the subcommand.
    pub(super) fn parse(words: &[String]) -> Result<Self> {
        let mut options = Self {
            rounds: super::ROUNDS,
            time: Duration::from_secs(2),
            tollgate: None,
            quick: false,
            write: false,
            cells: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            match flag.as_str() {
                "--quick" => {
                    (options.rounds, options.time) = (2, Duration::from_secs(1));
                    options.quick = true;
                }
                "--write" => options.write = true,
                _ => options.set(flag, words.next())?,
            }
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: Option<&String>) -> Result<()> {
        let wrong = || format!("`{flag}` is unknown, or its value is wrong\n{USAGE}");
        let value = value.ok_or_else(wrong)?;
        let whole = || value.parse().ok().filter(|number| (1..=20).contains(number));
        match flag {
            "--rounds" => self.rounds = value.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?,
            "--seconds" => self.time = Duration::from_secs(whole().ok_or_else(wrong)?),
            "--tollgate" => self.tollgate = Some(PathBuf::from(value)),
            "--cells" => self.cells = value.split(',').map(str::to_owned).collect(),
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// Whether the cell of this name is selected.
    pub(super) fn wants(&self, cell: &str) -> bool {
        self.cells.is_empty() || self.cells.iter().any(|part| cell.contains(part))
    }

    /// Whether any cell whose name begins so may be selected.
    pub(super) fn wants_group(&self, group: &str) -> bool {
        let of_group = |part: &String| part.starts_with(group) || group.starts_with(part.as_str());
        self.cells.is_empty() || self.cells.iter().any(of_group)
    }

    /// The run, in words.
    pub(super) fn describe(&self) -> String {
        let (rounds, seconds) = (self.rounds, self.time.as_secs());
        let part = match self.cells.is_empty() {
            true => String::new(),
            false => format!(", only {}", self.cells.join(", ")),
        };
        let program = match self.tollgate {
            Some(_) => ", with a program of Tollgate that was given",
            None => "",
        };
        format!("{rounds} interleaved rounds of {seconds} s per cell{part}{program}")
    }
}

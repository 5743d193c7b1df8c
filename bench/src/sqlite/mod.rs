//! The SQLite store beside a loop that commits one row at a time, on the same disk with the same
//! settings: decisions per second and how long callers wait.
//!
//! Contenders run interleaved, each on a file of its own: every round runs each of them once.

mod contender;

use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate_test_servers::Folder;

use crate::Result;
use crate::report::{Markdown, machine};
use contender::{Kind, Sample};

/// The name of the subcommand.
pub(crate) const COMMAND: &str = "sqlite";

const USAGE: &str = "\
usage: tollgate-bench sqlite [options]
  --rounds N     interleaved rounds (default 5); the median of each cell is shown
  --seconds N    length of each run (default 3)
  --keys N       distinct keys (default 100000)";

/// The options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) rounds: u64,
    pub(crate) length: Duration,
    pub(crate) keys: u64,
}

/// Runs the subcommand.
pub(crate) fn print(words: &[String]) -> Result<()> {
    let options = parse(words)?;
    print!("{}", machine());
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); Kind::ALL.len()];
    for round in 0..options.rounds {
        for (kind, samples) in Kind::ALL.into_iter().zip(&mut samples) {
            let folder = Folder::new("bench").map_err(|error| error.to_string())?;
            let sample = kind.run(&folder.path().join("limits.db"), options, &runtime)?;
            eprintln!("round {round}: {}: {sample:?}", kind.title());
            samples.push(sample);
        }
    }
    table(&mut samples);
    Ok(())
}

fn table(samples: &mut [Vec<Sample>]) {
    let mut markdown = Markdown::new(&["what", "durability"]);
    for title in ["decisions/s", "times the loop", "p50 ms", "p99 ms"] {
        markdown.column(title);
    }
    markdown.print_head();
    let medians: Vec<Sample> =
        samples.iter_mut().map(|samples| contender::median(samples)).collect();
    for (kind, sample) in Kind::ALL.into_iter().zip(&medians) {
        let loops = Kind::ALL.into_iter().zip(&medians);
        let same = |(other, _): &(Kind, &Sample)| other.is_loop_for(kind);
        let floor = loops.into_iter().find(same).map_or(f64::NAN, |(_, floor)| floor.per_second);
        let ms = |wait: Duration| format!("{:.2}", wait.as_secs_f64() * 1_000.0);
        markdown.print_row(&[
            kind.title().to_owned(),
            kind.durability().to_owned(),
            format!("{:.0}", sample.per_second),
            format!("{:.1}", sample.per_second / floor),
            ms(sample.p50),
            ms(sample.p99),
        ]);
    }
    println!();
}

fn parse(words: &[String]) -> Result<Options> {
    let mut options = Options { rounds: 5, length: Duration::from_secs(3), keys: 100_000 };
    for pair in words.chunks(2) {
        let [flag, value] = pair else { return Err(USAGE.into()) };
        let number = value.replace('_', "").parse::<u64>().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| format!("`{flag} {value}`: at least 1\n{USAGE}"))?;
        match flag.as_str() {
            "--rounds" => options.rounds = number,
            "--seconds" => options.length = Duration::from_secs(number),
            "--keys" => options.keys = number,
            _ => return Err(format!("unknown option `{flag}`\n{USAGE}")),
        }
    }
    Ok(options)
}

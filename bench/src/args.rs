//! The command line, parsed by hand: a benchmark should not bring a parser along.

use crate::Result;
use crate::contender::{self, Entry};
use crate::measure::Pick;

/// How the program is called.
pub(crate) const USAGE: &str = "\
usage: tollgate-bench <memory | clock | memory-use | instructions | tower | all> [options]
       tollgate-bench redis [options of its own]
       tollgate-bench postgres [options of its own: --help]
       tollgate-bench sqlite [options of its own]
       tollgate-bench server [options of its own]
       tollgate-bench operations [options of its own]
  --rounds N          interleaved rounds per cell (default 7)
  --ops N             checks per thread and round (default 1000000)
  --wide              quotas whose denominators exceed Tollgate's one-word states
  --cells A,B         only cells whose name contains one of these, e.g. hot-allow,1m-deny-2t
  --contenders A,B    only these contenders, e.g. tollgate,quota
  --best              the fastest round instead of the median, for a machine that others use too
  --quick             3 rounds of 100000 checks: a smoke test, not a measurement";

/// The options of every subcommand.
#[derive(Debug)]
pub(crate) struct Args {
    /// Interleaved rounds per cell.
    pub(crate) rounds: usize,
    /// Checks per thread and round.
    pub(crate) ops: usize,
    /// Whether quotas have large denominators.
    pub(crate) wide: bool,
    /// Which of the samples of a cell is shown.
    pub(crate) pick: Pick,
    cells: Vec<String>,
    contenders: Vec<String>,
}

impl Args {
    /// Reads the words after the subcommand.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut args = Self {
            rounds: 7,
            ops: 1_000_000,
            wide: false,
            pick: Pick::Median,
            cells: Vec::new(),
            contenders: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            match flag.as_str() {
                "--quick" => (args.rounds, args.ops) = (3, 100_000),
                "--best" => args.pick = Pick::Best,
                "--wide" => args.wide = true,
                _ => args.set(flag, words.next())?,
            }
        }
        Ok(args)
    }

    fn set(&mut self, flag: &str, value: Option<&String>) -> Result<()> {
        let value =
            value.ok_or_else(|| format!("`{flag}` is unknown or lacks its value\n{USAGE}"))?;
        match flag {
            "--rounds" => self.rounds = at_least_one(flag, value)?,
            "--ops" => self.ops = at_least_one(flag, value)?,
            "--cells" => self.cells = list(value),
            "--contenders" => self.contenders = known(list(value))?,
            _ => return Err(format!("unknown option `{flag}`\n{USAGE}")),
        }
        Ok(())
    }

    /// Whether the cell of this name is selected.
    pub(crate) fn wants_cell(&self, name: &str) -> bool {
        self.cells.is_empty() || self.cells.iter().any(|part| name.contains(part))
    }

    /// The selected contenders, in the order of the table.
    pub(crate) fn contenders(&self) -> Vec<&'static Entry> {
        contender::ALL
            .iter()
            .filter(|entry| {
                self.contenders.is_empty() || self.contenders.iter().any(|one| one == entry.id)
            })
            .collect()
    }
}

fn list(value: &str) -> Vec<String> {
    value.split(',').map(str::to_owned).collect()
}

fn known(ids: Vec<String>) -> Result<Vec<String>> {
    for id in &ids {
        contender::find(id)?;
    }
    Ok(ids)
}

fn at_least_one<N: std::str::FromStr + PartialOrd + From<u8>>(
    flag: &str,
    value: &str,
) -> Result<N> {
    match value.replace('_', "").parse::<N>() {
        Ok(number) if number >= N::from(1) => Ok(number),
        _ => Err(format!("`{flag} {value}`: a whole number of at least 1 is needed")),
    }
}

//! The options of the subcommand.

use std::time::Duration;

use tollgate_test_servers::PgVersion;

use crate::Result;

/// How the subcommand is called.
const USAGE: &str = "\
usage: tollgate-bench postgres [options]
  --url URL           a running server; its schema `bench` is dropped (default: one is started)
  --version 15|18     which one is started (default 15)
  --rounds N          interleaved rounds (default 3); the median of each cell is shown
  --seconds N         length of each run (default 5)
  --callers N         concurrent callers (default 256)
  --keys N            distinct keys (default 100000)
  --connections N     connections of the rivals (default 32)
  --contenders A,B    only these: tollgate, once, audit, relaxed, once-relaxed, serializable,
                      advisory, upsert, commit
  --ids               instead: what request ids cost, on 10000 keys by 1024 callers
  --sweep             instead: a table with expired rows is reclaimed during decisions
  --rows N            expired rows for --sweep (default 10000000)";

/// The options.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) url: Option<String>,
    pub(crate) version: PgVersion,
    pub(crate) rounds: usize,
    pub(crate) length: Duration,
    pub(crate) callers: usize,
    pub(crate) keys: u64,
    pub(crate) connections: usize,
    pub(crate) contenders: Vec<String>,
    pub(crate) ids: bool,
    pub(crate) sweeps: bool,
    pub(crate) rows: u64,
}

impl Options {
    /// The server, which is known once it runs.
    pub(crate) fn url(&self) -> &str {
        self.url.as_deref().unwrap_or_default()
    }

    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut options = Self {
            url: None,
            version: PgVersion::V15,
            rounds: 3,
            length: Duration::from_secs(5),
            callers: 256,
            keys: 100_000,
            connections: 32,
            contenders: Vec::new(),
            ids: false,
            sweeps: false,
            rows: 10_000_000,
        };
        let mut words = words.iter();
        while let Some(flag) = words.next() {
            if flag == "--help" {
                return Err(USAGE.into());
            }
            match flag.as_str() {
                "--ids" => options.ids = true,
                "--sweep" => options.sweeps = true,
                _ => {
                    let value = words.next().ok_or_else(|| {
                        format!("`{flag}` is unknown or lacks its value\n{USAGE}")
                    })?;
                    options.set(flag, value)?;
                }
            }
        }
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<()> {
        let number = || {
            let number = value.replace('_', "").parse::<u64>().ok().filter(|number| *number > 0);
            number
                .ok_or_else(|| format!("`{flag} {value}`: a whole number of at least 1 is needed"))
        };
        let size = || number().map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        match flag {
            "--url" => self.url = Some(value.to_owned()),
            "--version" => {
                let mut known = PgVersion::ALL.into_iter();
                let version = known.find(|version| version.major().to_string() == value);
                self.version = version.ok_or_else(|| format!("`--version {value}`: 15 or 18"))?;
            }
            "--rounds" => self.rounds = size()?,
            "--seconds" => self.length = Duration::from_secs(number()?),
            "--callers" => self.callers = size()?,
            "--keys" => self.keys = number()?,
            "--connections" => self.connections = size()?,
            "--rows" => self.rows = number()?,
            "--contenders" => self.contenders = value.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("unknown option `{flag}`\n{USAGE}")),
        }
        Ok(())
    }
}

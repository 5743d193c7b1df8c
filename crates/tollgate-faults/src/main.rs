//! Runs scenarios and figures by name, all of them without a name, and prints what they found.
//!
//! `tollgate-faults [--seed N] [--write PAGE] SERVER [NAME…]`: `SERVER` is the binary `tollgate`, a
//! name is one of a scenario, a figure or a store. The page is written after each of them, so a run
//! that is ended early keeps what it has found.
#![expect(clippy::print_stdout, reason = "the rows are what the program is run for")]

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::timeout;
use tollgate_faults::figure::{FIGURES, Figure};
use tollgate_faults::{Result, Row, Scenario, Setup, Store, install, report, suite};

/// A scenario takes seconds, and one of chaos or a figure up to a minute and a half.
const LONGEST_RUN: Duration = Duration::from_secs(150);

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (mut seed, mut page, mut names) =
        (RandomState::new().hash_one("faults") >> 32, None, vec![]);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => seed = words.next().ok_or("--seed needs a number")?.parse()?,
            "--write" => page = Some(words.next().ok_or("--write needs a file")?),
            _ => names.push(word),
        }
    }
    let mut names = names.into_iter();
    let program = names.next().ok_or("the path of the binary `tollgate` is missing")?;
    // Servers run in folders of their own.
    let program = std::fs::canonicalize(program)?.to_string_lossy().into_owned();
    let setup = Setup::whole(program, seed);
    let runs = wanted(&names.collect::<Vec<_>>())?;
    println!("seed {seed}");
    for store in Store::ALL {
        if runs.iter().any(|run| run.needs(store)) {
            install(store)?;
        }
    }
    let mut wrong = Vec::new();
    let page = Page { path: page, machine: machine(seed) };
    for (index, run) in runs.iter().enumerate() {
        let left: Duration = runs.iter().skip(index).map(|run| run.takes(&setup)).sum();
        let (place, all) = (index + 1, runs.len());
        println!("{place} of {all}: {}; {} s left in all, about", run.name(), left.as_secs());
        let found = timeout(LONGEST_RUN, run.run(&setup, &page)).await;
        match found.unwrap_or_else(|_| Err("it took too long".into())) {
            Ok(of_run) => wrong.extend(of_run),
            Err(error) => wrong.push(format!("{}: {error}", run.name())),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// One line of the command line.
#[derive(Clone, Copy, Debug)]
enum Run {
    Figure(&'static Figure),
    Scenario(Scenario),
}

/// The runs of these names, all of them without names.
fn wanted(names: &[String]) -> Result<Vec<Run>> {
    let figures = FIGURES.iter().map(Run::Figure);
    let all: Vec<Run> = figures.chain(suite().into_iter().map(Run::Scenario)).collect();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|run| run.has_name(name))) {
        return Err(format!("no scenario, figure or store has the name {unknown}").into());
    }
    let is_wanted = |run: &Run| names.is_empty() || names.iter().any(|name| run.has_name(name));
    Ok(all.into_iter().filter(is_wanted).collect())
}

impl Run {
    fn name(self) -> String {
        match self {
            Self::Figure(figure) => figure.name.to_owned(),
            Self::Scenario(scenario) => scenario.name(),
        }
    }

    fn has_name(self, name: &str) -> bool {
        let is_store =
            matches!(self, Self::Scenario(Scenario { store, .. }) if store.name() == name);
        is_store || self.name() == name
    }

    fn needs(self, store: Store) -> bool {
        match self {
            Self::Figure(figure) => figure.stores.contains(&store),
            Self::Scenario(scenario) => scenario.store == store,
        }
    }

    fn takes(self, setup: &Setup) -> Duration {
        match self {
            Self::Figure(figure) => figure.takes,
            Self::Scenario(scenario) => scenario.takes(setup),
        }
    }

    /// Measures, prints and writes. Returns what was wrong.
    async fn run(self, setup: &Setup, page: &Page) -> Result<Vec<String>> {
        let (mut rows, mut findings) = (Vec::new(), Vec::new());
        match self {
            Self::Figure(figure) => {
                let finding = (figure.run)(setup.clone()).await?.of(figure);
                println!("{finding}");
                findings.push(finding);
            }
            Self::Scenario(scenario) => {
                rows = scenario.run(setup).await?;
                rows.iter().for_each(|row| print!("{}", row.to_markdown()));
            }
        }
        page.write(|text, machine| report::update(text, &rows, &findings, machine))?;
        let missed = findings.iter().filter(|finding| !finding.is_met);
        let missed = missed.map(|finding| format!("{}: missed", finding.name));
        Ok(rows.iter().flat_map(wrong_in).chain(missed).collect())
    }
}

/// What a row shows that must not be.
fn wrong_in(row: &Row) -> Vec<String> {
    let Row { answers, timer_delay, .. } = row;
    let (longest, delay) = (answers.longest.as_millis(), timer_delay.as_millis());
    let late = row.late.map(|late| {
        format!("{}: {late}; the longest took {longest} ms, a timer {delay} ms", row.name())
    });
    row.violations().into_iter().chain(late).collect()
}

/// The page that results are written to, if there is one.
struct Page {
    path: Option<String>,
    machine: String,
}

impl Page {
    fn write(&self, update: impl Fn(&str, &str) -> Result<String>) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = update(&std::fs::read_to_string(path)?, &self.machine)?;
        Ok(std::fs::write(path, text)?)
    }
}

/// What the figures were measured on.
fn machine(seed: u64) -> String {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |model| model.trim_start_matches([':', ' ', '\t']));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let build = if cfg!(debug_assertions) { "build of the tests" } else { "release build" };
    format!(
        "The last run: seed {seed}, {build} of {}, {cores} cores ({model}), Linux;\nservers, \
         proxies and load on the same machine.",
        env!("CARGO_PKG_VERSION")
    )
}

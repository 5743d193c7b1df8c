//! Runs scenarios and figures by name, all of them without a name, and prints what they found.
//!
//! `tollgate-faults [--seed N] [--write PAGE] SERVER [NAME…]`: `SERVER` is the binary `tollgate`, a
//! name is one of a scenario, a figure or a store.
#![expect(clippy::print_stdout, reason = "the rows are what the program is run for")]

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::timeout;
use tollgate_faults::figure::FIGURES;
use tollgate_faults::{Result, Row, Setup, report, suite};

/// A scenario takes seconds, and one of chaos a minute.
const LONGEST_RUN: Duration = Duration::from_secs(120);

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
    let names: Vec<String> = names.collect();
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    println!("seed {seed}");
    let setup = Setup::whole(program, seed);
    let (mut rows, mut findings, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
    for figure in FIGURES.iter().filter(|figure| is_wanted(figure.name)) {
        match (figure.run)(setup.clone()).await {
            Ok(outcome) => {
                let finding = outcome.of(figure);
                println!("{finding}");
                findings.push(finding);
            }
            Err(error) => wrong.push(format!("{}: {error}", figure.name)),
        }
    }
    for scenario in suite() {
        if !is_wanted(&scenario.name()) && !is_wanted(scenario.store.name()) {
            continue;
        }
        let run = timeout(LONGEST_RUN, scenario.run(&setup)).await;
        match run.unwrap_or_else(|_| Err("it took more than two minutes".into())) {
            Ok(of_modes) => {
                for row in &of_modes {
                    print!("{}", row.to_markdown());
                }
                rows.extend(of_modes);
            }
            Err(error) => wrong.push(format!("{}: {error}", scenario.name())),
        }
    }
    if let Some(page) = page {
        let text =
            report::update(&std::fs::read_to_string(&page)?, &rows, &findings, &machine(seed))?;
        std::fs::write(&page, text)?;
    }
    wrong.extend(rows.iter().flat_map(|row| row.violations()));
    let late = rows.iter().filter_map(|row| {
        let Row { answers, timer_delay, .. } = row;
        let (longest, delay) = (answers.longest.as_millis(), timer_delay.as_millis());
        let late = row.late?;
        Some(format!("{}: {late}; the longest took {longest} ms, a timer {delay} ms", row.name()))
    });
    wrong.extend(late);
    let missed = findings.iter().filter(|finding| !finding.is_met);
    wrong.extend(missed.map(|finding| format!("{}: missed", finding.name)));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
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

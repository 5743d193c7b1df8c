//! `server`: Tollgate's server next to other servers, the floor, and its own library.
//!
//! Every server listens on loopback and has the same limits; the same generators of load ask all
//! of them, in interleaved rounds. A figure is the median over the rounds, with the range.

mod audit;
mod bed;
pub(crate) mod floor;
mod growth;
mod grpc;
mod install;
mod kinds;
mod latency;
mod live_keys;
mod load;
mod main_cells;
mod open_loop;
mod options;
mod page;
mod plot;
pub(crate) mod reference;
mod stores;
mod table;
mod target;
mod wire;

use std::time::{Duration, Instant};

use crate::Result;
use crate::redis::sliding;
use crate::report::{load, machine};
use bed::Bed;
use install::Programs;
use main_cells::wrapped;
use options::Options;
use page::Section;

/// The name of the subcommand.
pub(crate) const COMMAND: &str = "server";
/// Rounds of a measurement.
const ROUNDS: usize = 5;
/// The deadline of every call to a store: the default of 100 ms would end calls of a load that is
/// as high as it can be.
const DEADLINE: Duration = Duration::from_secs(5);

/// Runs the selected cells and prints their tables; with `--write` into the page as well.
pub(crate) fn print(words: &[String]) -> Result<()> {
    let options = Options::parse(words)?;
    let programs = Programs::new(options.tollgate.as_deref())?;
    let started = Instant::now();
    let (machine, load) = (machine(), load());
    let mut sections = measure(&options, &programs)?;
    let run = format!(
        "{machine} Programs: {}. The run: {}; it took {} s.{}",
        programs.versions(),
        options.describe(),
        started.elapsed().as_secs(),
        doubts(&options, &load)
    );
    sections.insert(0, Section { name: "run", text: wrapped(&run) });
    for section in &sections {
        println!("<!-- {} -->\n{}", section.name, section.text);
    }
    if options.write { page::write(&sections) } else { Ok(()) }
}

/// What makes the figures of this run worth little.
fn doubts(options: &Options, load: &str) -> String {
    let mut text = String::new();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if load.parse::<f64>().is_ok_and(|load| load > cores as f64 / 2.0) {
        text += " **Other work used the machine.**";
    }
    if options.rounds < ROUNDS {
        text += " **Fewer rounds than a measurement needs.**";
    }
    if cfg!(debug_assertions) {
        text += " **This program, with the floor, the library and the clients of gRPC, was built \
                 without optimisation.**";
    }
    text
}

fn measure(options: &Options, programs: &Programs) -> Result<Vec<Section>> {
    let bed = Bed::start(options, programs)?;
    let mut sections = Vec::new();
    let compared = main_cells::run(&bed)?;
    if !compared.is_empty() {
        let each: Vec<String> = compared.iter().map(main_cells::Compared::section).collect();
        sections.push(Section { name: "servers", text: each.concat() });
        if options.write {
            page::write_plot(&plot::svg(&compared))?;
        }
    }
    let mut add = |name, text: Option<String>| {
        sections.extend(text.map(|text| Section { name, text }));
    };
    add("latency", latency::run(&bed, &compared)?);
    add("growth", growth::run(&bed)?);
    add("keys", live_keys::run(&bed)?);
    add("stores", stores::run(&bed)?);
    add("reference", reference::run(&bed)?);
    let wants = |cell: &str| options.wants(cell);
    add("sliding", sliding::run((options.rounds, options.time), wants)?);
    Ok(sections)
}

//! `clock`: nanoseconds per reading, because a check can be no faster than its clock.

use std::hint::black_box;
use std::time::{Instant, SystemTime};

use tollgate::{Clock, SystemClock};

use crate::Result;
use crate::args::Args;
use crate::measure;
use crate::report::Markdown;

/// Reads a clock this many times.
type Readings = Box<dyn Fn(usize)>;

/// Prints the table.
pub(crate) fn print(args: &Args) -> Result<()> {
    let quanta = quanta::Clock::new();
    let ours = SystemClock::new();
    let clocks: [(&str, &str, Readings); 4] = [
        (
            "quanta raw + delta",
            "governor, quota",
            readings(move || quanta.delta_as_nanos(0, quanta.raw())),
        ),
        ("Instant", "", readings(Instant::now)),
        ("SystemTime", "throttlecrab", readings(SystemTime::now)),
        ("Tollgate SystemClock", "Tollgate", readings(move || ours.now())),
    ];
    let mut samples = vec![Vec::new(); clocks.len()];
    for round in 0..args.rounds {
        for place in measure::rotation(clocks.len(), round) {
            let start = Instant::now();
            (clocks[place].2)(args.ops);
            samples[place].push(start.elapsed().as_secs_f64() * 1e9 / args.ops as f64);
        }
    }
    println!("### Clocks\n");
    let mut table = Markdown::new(&["clock", "read by"]);
    table.column("ns per reading");
    table.print_head();
    for ((name, reader, _), samples) in clocks.iter().zip(samples) {
        let ns = args.pick.of(samples);
        table.print_row(&[(*name).into(), (*reader).into(), format!("{ns:.1}")]);
    }
    println!();
    Ok(())
}

fn readings<T>(read: impl Fn() -> T + 'static) -> Readings {
    Box::new(move |count| {
        for _ in 0..count {
            black_box(read());
        }
    })
}

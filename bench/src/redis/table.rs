//! The figures of all cases, and the targets beside them.

use super::options::Options;
use super::sample::{Sample, median};
use super::{KEYS, TURNS, UNITS};
use crate::report::Markdown;

/// The share of the time, in percent, that the server of a ceiling must be busy.
const SATURATED: f64 = 90.0;

/// What each case did in each round.
#[derive(Debug)]
pub(super) struct Results {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    id: &'static str,
    title: String,
    samples: Vec<Sample>,
}

/// A target: what is compared, and whether more or less of it is wanted.
struct Target {
    what: &'static str,
    bound: Bound,
    seen: Option<f64>,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Results {
    pub(super) fn new(rows: impl Iterator<Item = (&'static str, String, Vec<Sample>)>) -> Self {
        let row = |(id, title, samples)| Row { id, title, samples };
        Self { rows: rows.map(row).collect() }
    }

    pub(super) fn print(&self, options: &Options, version: &str) {
        println!(
            "### Redis\n\nRedis {version}, clients on the same machine. Median of {} interleaved \
             rounds of {} s per case (lone callers: in {TURNS} turns each); ratios are medians of \
             the ratios of each round.\n{KEYS} distinct keys, gcra with {UNITS} units per day, \
             every call allowed. Server CPU is that of the servers' main threads; client CPU is \
             that of the benchmark itself, latencies and all.\n",
            options.rounds,
            options.time.as_secs_f64(),
        );
        self.print_figures();
        self.print_races();
        self.print_targets();
        self.print_doubts();
    }

    fn print_figures(&self) {
        let mut table = Markdown::new(&["case", ""]);
        let columns = [
            "per second",
            "× (a)",
            "p50 µs",
            "p95 µs",
            "p99 µs",
            "server CPU µs per decision",
            "client CPU µs per decision",
            "server busy %",
            "script calls per decision",
            "µs per script call",
        ];
        columns.into_iter().for_each(|column| table.column(column));
        table.print_head();
        for row in &self.rows {
            let mut cells = vec![row.id.to_owned(), row.title.clone()];
            cells.push(format!("{:.0}", row.median(|sample| sample.per_second)));
            let ceiling =
                if row.id.starts_with("cluster") { "cluster-a-ceiling" } else { "a-ceiling" };
            let ratio = self.ratio(row.id, ceiling, |sample| Some(sample.per_second));
            cells.push(number(ratio.filter(|_| !row.id.starts_with("lone")), 2));
            for place in 0..3 {
                cells.push(number(self.median_of(row.id, |s| Some(s.percentiles?[place])), 1));
            }
            cells.push(number(self.median_of(row.id, |sample| Some(sample.cpu)), 2));
            cells.push(number(self.median_of(row.id, |sample| Some(sample.own_cpu)), 2));
            cells.push(number(self.median_of(row.id, |sample| Some(sample.busy * 100.0)), 0));
            cells.push(number(self.median_of(row.id, |sample| Some(sample.calls)), 3));
            cells.push(number(self.median_of(row.id, |sample| Some(sample.script)), 1));
            table.print_row(&cells);
        }
    }

    fn print_races(&self) {
        println!();
        let mut table = Markdown::new(&["case"]);
        ["lost races per decision", "`conflict_exhausted` %"]
            .into_iter()
            .for_each(|column| table.column(column));
        table.print_head();
        for row in self.rows.iter().filter(|row| row.id.starts_with("f-")) {
            let lost = row.median(|sample| sample.lost);
            let exhausted = row.median(|sample| sample.undecided) * 100.0;
            table.print_row(&[row.id.to_owned(), format!("{lost:.2}"), format!("{exhausted:.2}")]);
        }
    }

    /// What makes figures of this run doubtful.
    fn print_doubts(&self) {
        for row in self.rows.iter().filter(|row| row.id == "a-ceiling") {
            let busy = row.median(|sample| sample.busy) * 100.0;
            if busy < SATURATED {
                println!(
                    "\n**{}: the server was busy for only {busy:.0} % of the time. Other load took \
                     the processors, so this is no ceiling, and ratios to it are too good.**",
                    row.id
                );
            }
        }
        for row in self.rows.iter().filter(|row| !row.id.starts_with("f-")) {
            let undecided = row.median(|sample| sample.undecided) * 100.0;
            if undecided > 0.0 {
                println!("\n**{}: {undecided:.2} % were decided without the store.**", row.id);
            }
        }
    }

    fn print_targets(&self) {
        println!();
        let mut table = Markdown::new(&["target"]);
        ["wanted", "seen", "met"].into_iter().for_each(|column| table.column(column));
        table.print_head();
        for target in self.targets() {
            let (sign, bound) = match target.bound {
                Bound::AtLeast(bound) => ("≥", bound),
                Bound::AtMost(bound) => ("≤", bound),
            };
            let met = match (target.seen, &target.bound) {
                (None, _) => "not run",
                (Some(seen), Bound::AtLeast(bound)) if seen >= *bound => "yes",
                (Some(seen), Bound::AtMost(bound)) if seen <= *bound => "yes",
                _ => "**no**",
            };
            table.print_row(&[
                target.what.to_owned(),
                format!("{sign} {bound}"),
                number(target.seen, 2),
                met.to_owned(),
            ]);
        }
    }

    fn targets(&self) -> Vec<Target> {
        let speed = |over, under| self.ratio(over, under, |sample| Some(sample.per_second));
        let p99 = |sample: &Sample| Some(sample.percentiles?[2]);
        let at_least = |what, bound, seen| Target { what, bound: Bound::AtLeast(bound), seen };
        let at_most = |what, bound, seen| Target { what, bound: Bound::AtMost(bound), seen };
        vec![
            at_least("(b) store / (a)", 1.2, speed("b-store", "a-ceiling")),
            at_least("(b) limiter / (a)", 1.2, speed("b-limiter", "a-ceiling")),
            at_least("(b) / (a) on a cluster", 0.85, speed("cluster-b-store", "cluster-a-ceiling")),
            at_least("(c) / (a), 64 callers", 3.0, speed("c-hot-64", "a-ceiling")),
            at_least("(c) / (a), 256 callers", 6.0, speed("c-hot-256", "a-ceiling")),
            at_least("(b) limiter / (d)", 1.3, speed("b-limiter", "d-lockstep")),
            at_most(
                "(b) limiter / (d), server CPU per decision",
                0.6,
                self.ratio("b-limiter", "d-lockstep", |sample| Some(sample.cpu)),
            ),
            at_least("(b) limiter / (e)", 1.0, speed("b-limiter", "e-limitador")),
            at_most(
                "p50 of a lone call, store / (PING + script)",
                1.35,
                self.lone("lone-store", "lone-ping"),
            ),
            at_most(
                "p50 of a lone call, limiter / (PING + script)",
                1.35,
                self.lone("lone-limiter", "lone-ping"),
            ),
            at_most(
                "the same, store, PING through tokio",
                1.35,
                self.lone("lone-store", "lone-ping-async"),
            ),
            at_most(
                "the same, limiter, PING through tokio",
                1.35,
                self.lone("lone-limiter", "lone-ping-async"),
            ),
            at_most(
                "p99, 64 on one key / 256 on distinct keys",
                1.5,
                self.ratio("c-hot-64", "b-limiter", p99),
            ),
            at_most(
                "p99, 256 on one key / 256 on distinct keys",
                1.5,
                self.ratio("c-hot-256", "b-limiter", p99),
            ),
        ]
    }

    /// The median call over the median PING and the script's own time, as the server reports it.
    fn lone(&self, call: &str, ping: &str) -> Option<f64> {
        let p50 = |sample: &Sample| Some(sample.percentiles?[0]);
        self.compare(call, ping, |call, ping| Some(p50(call)? / (p50(ping)? + call.script)))
    }

    fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    fn median_of(&self, id: &str, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.row(id)?.samples.iter().map(of).collect();
        values.map(median)
    }

    fn ratio(&self, over: &str, under: &str, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        self.compare(over, under, |over, under| Some(of(over)? / of(under)?))
    }

    /// The median of what is found by comparing two cases in each round.
    fn compare(
        &self,
        one: &str,
        other: &str,
        of: impl Fn(&Sample, &Sample) -> Option<f64>,
    ) -> Option<f64> {
        let pairs = self.row(one)?.samples.iter().zip(&self.row(other)?.samples);
        let compared: Option<Vec<f64>> = pairs.map(|(one, other)| of(one, other)).collect();
        compared.map(median)
    }
}

impl Row {
    fn median(&self, of: impl Fn(&Sample) -> f64) -> f64 {
        median(self.samples.iter().map(of))
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

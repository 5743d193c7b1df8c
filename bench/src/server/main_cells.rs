//! The comparison: every server on every protocol that it speaks, in interleaved rounds.

use super::bed::{Bed, Cell, KEYS, Sample};
use super::kinds::Protocol;
use super::table::{Figure, Row, compared};
use super::target::Target;
use crate::Result;
use crate::measure::rotation;

/// A protocol, and how it is used.
pub(super) struct Group {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    note: &'static str,
    protocol: Protocol,
    connections: u64,
    pipeline: u64,
    pub(super) targets: &'static [Target],
}

const GRPC: &[Target] = &[
    Target::Tollgate,
    Target::TollgateStream,
    Target::Throttlecrab,
    Target::FloorThreads,
    Target::FloorCurrent,
];
const HTTP: &[Target] = &[
    Target::Tollgate,
    Target::Throttlecrab,
    Target::Nginx,
    Target::FloorThreads,
    Target::FloorCurrent,
];
const RESP: &[Target] = &[Target::Tollgate, Target::Throttlecrab, Target::Incr, Target::Script];

/// In the order of the page.
pub(super) const GROUPS: [Group; 4] = [
    Group {
        id: "grpc",
        title: "gRPC",
        note: "`h2load`, 10 connections with 10 streams each, one key per round. \
               `AcquireStream`: 200 messages per stream.",
        protocol: Protocol::Grpc,
        connections: 10,
        pipeline: 10,
        targets: GRPC,
    },
    Group {
        id: "http",
        title: "HTTP",
        note: "`wrk`, 50 connections, a POST with a body, 10,000 keys in turn.",
        protocol: Protocol::Http,
        connections: 50,
        pipeline: 1,
        targets: HTTP,
    },
    Group {
        id: "resp-1",
        title: "RESP",
        note: "`redis-benchmark`, 50 connections, 10,000 keys at random.",
        protocol: Protocol::Resp,
        connections: 50,
        pipeline: 1,
        targets: RESP,
    },
    Group {
        id: "resp-16",
        title: "RESP, 16 pipelined",
        note: "The same with `-P 16`.",
        protocol: Protocol::Resp,
        connections: 50,
        pipeline: 16,
        targets: RESP,
    },
];

/// The figures of a group.
pub(super) struct Compared {
    pub(super) group: &'static Group,
    pub(super) rows: Vec<(Target, Vec<Sample>)>,
}

impl Compared {
    /// The section of the page.
    pub(super) fn section(&self) -> String {
        let rows: Vec<Row> = self
            .rows
            .iter()
            .map(|(target, samples)| (target.title().to_owned(), samples.clone()))
            .collect();
        let table = compared("server", &rows, 0);
        format!("### {}\n\n{}\n\n{table}", self.group.title, wrapped(self.group.note))
    }

    /// The highest rate of Tollgate.
    pub(super) fn rate(&self, target: Target) -> Option<f64> {
        let (_, samples) = self.rows.iter().find(|(one, _)| *one == target)?;
        Some(Figure::of(samples.iter().map(|sample| sample.per_second)).median)
    }
}

/// Runs the selected cells.
pub(super) fn run(bed: &Bed) -> Result<Vec<Compared>> {
    let mut groups = Vec::new();
    let mut cells = Vec::new();
    for group in &GROUPS {
        let streams = group.targets.contains(&Target::TollgateStream) && bed.has_streams();
        let offered = group.targets.iter().copied();
        let offered = offered.filter(|target| streams || *target != Target::TollgateStream);
        let mut rows = Vec::new();
        for target in offered {
            let id = format!("{}-{}", group.id, target.id());
            if bed.options.wants(&id) {
                cells.push((groups.len(), rows.len(), cell_of(group, target, id)));
                rows.push((target, Vec::new()));
            }
        }
        groups.push(Compared { group, rows });
    }
    for round in 0..bed.options.rounds {
        for place in rotation(cells.len(), round) {
            let (group, row, cell) = &cells[place];
            let sample = bed.run(cell)?;
            eprintln!("round {round}: {}: {sample:?}", cell.id);
            groups[*group].rows[*row].1.push(sample);
        }
    }
    groups.retain(|group| !group.rows.is_empty());
    Ok(groups)
}

/// The cell of a group for a target, if there is one.
pub(super) fn cell(group: &str, target: Target) -> Option<Cell> {
    let group = GROUPS.iter().find(|one| one.id == group)?;
    let is_asked = group.targets.contains(&target);
    is_asked.then(|| cell_of(group, target, format!("{}-{}", group.id, target.id())))
}

fn cell_of(group: &Group, target: Target, id: String) -> Cell {
    let Group { protocol, connections, pipeline, .. } = *group;
    // A stream is a request of many messages: fewer of them are under way.
    let pipeline = if target == Target::TollgateStream { 1 } else { pipeline };
    Cell { id, target, protocol, keys: KEYS, policies: 1, connections, pipeline }
}

/// Prose of the page, in lines of at most 100 columns.
pub(super) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let full = lines.last().is_some_and(|line| line.chars().count() + word.len() >= 100);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

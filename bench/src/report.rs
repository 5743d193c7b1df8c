//! Markdown: the tables, and the machine they were made on.

use std::fs;
use std::process::Command;
use std::thread;

/// The lockfile this program was built with, for the versions of the contenders.
const LOCKFILE: &str = include_str!("../Cargo.lock");
/// The crates whose versions are reported.
const CRATES: [&str; 11] = [
    "tollgate",
    "tollgate-redis",
    "governor",
    "quota",
    "throttlecrab",
    "limitador",
    "tokio",
    "dashmap",
    "quanta",
    "axum",
    "tower_governor",
];

/// A table that is printed row by row, so that a long run shows how far it is.
#[derive(Debug)]
pub(crate) struct Markdown {
    head: Vec<&'static str>,
    rule: Vec<&'static str>,
}

impl Markdown {
    /// A table with these columns of words.
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Self { head: columns.to_vec(), rule: vec!["---"; columns.len()] }
    }

    /// Adds a column of numbers, aligned right.
    pub(crate) fn column(&mut self, title: &'static str) {
        self.head.push(title);
        self.rule.push("--:");
    }

    /// The head.
    pub(crate) fn head(&self) -> String {
        format!("| {} |\n|{}|\n", self.head.join(" | "), self.rule.join("|"))
    }

    /// A row.
    pub(crate) fn row(&self, row: &[String]) -> String {
        debug_assert_eq!(row.len(), self.head.len(), "a row has every column");
        format!("| {} |\n", row.join(" | "))
    }

    /// Prints the head.
    pub(crate) fn print_head(&self) {
        print!("{}", self.head());
    }

    /// Prints a row.
    pub(crate) fn print_row(&self, row: &[String]) {
        print!("{}", self.row(row));
    }
}

/// Processor, compiler and versions, as a paragraph.
pub(crate) fn machine() -> String {
    let versions: Vec<String> =
        CRATES.iter().map(|name| format!("{name} {}", version(LOCKFILE, name))).collect();
    format!(
        "Machine: {}, {} cores, load {} at the start. Compiler: {}. Versions: {}.\n\n",
        processor(),
        thread::available_parallelism().map_or(0, usize::from),
        load(),
        compiler(),
        versions.join(", ")
    )
}

fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map(|rest| rest.trim_start_matches([' ', '\t', ':']));
    model.unwrap_or("unknown processor").to_owned()
}

/// The load average of the last minute: near 0 on an idle machine.
pub(crate) fn load() -> String {
    let loadavg = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = loadavg.split_whitespace().next();
    minute.unwrap_or("unknown").to_owned()
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    match output.map(|output| String::from_utf8(output.stdout)) {
        Ok(Ok(text)) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// The version of a crate in a lockfile.
fn version<'a>(lockfile: &'a str, name: &str) -> &'a str {
    let header = format!("name = \"{name}\"");
    let mut lines = lockfile.lines().skip_while(|line| *line != header);
    let line = lines.nth(1).and_then(|line| line.strip_prefix("version = \""));
    line.map_or("unknown", |line| line.trim_end_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_version() {
        for name in CRATES {
            assert_ne!(version(LOCKFILE, name), "unknown", "{name}");
        }
    }
}

//! The generated parts of `docs/guarantees.md`. A run replaces the lines of what it ran, and keeps
//! those of the other scenarios and figures of the suite.

use std::collections::BTreeMap;

use crate::Result;
use crate::figure::{FIGURES, Finding};
use crate::fleet::MODES;
use crate::row::{HEAD, Row, name};
use crate::suite::suite;

const FIGURES_HEAD: &str = "| figure | bound | measured | |\n|---|---|---|---|\n";
const END: &str = "<!-- end -->";

/// The page with the results of a run.
///
/// # Errors
/// When a part is missing.
pub fn update(page: &str, rows: &[Row], findings: &[Finding], machine: &str) -> Result<String> {
    let rows = rows.iter().map(|row| (row.name(), row.to_markdown()));
    let findings = findings.iter().map(|finding| (finding.name.to_owned(), finding.to_markdown()));
    let page = merge(page, "figures", FIGURES_HEAD, (&names_of_figures(), findings.collect()))?;
    let page = merge(&page, "faults", HEAD, (&names_of_rows(), rows.collect()))?;
    let (before, _, after) = split(&page, "machine")?;
    Ok(format!("{before}{machine}\n{after}"))
}

/// The names of the rows of a part, as they stand in the page.
///
/// # Errors
/// When the part is missing.
pub fn names_in(page: &str, part: &str) -> Result<Vec<String>> {
    let (_, inside, _) = split(page, part)?;
    let names = if part == "faults" { names_of_rows() } else { names_of_figures() };
    let name = |line: &str| {
        let known = names.iter().find(|name| line.starts_with(&format!("| {name} |")));
        known.cloned().unwrap_or_else(|| line.to_owned())
    };
    Ok(inside.lines().skip(2).map(name).collect())
}

/// Store, fault and mode of every row.
#[must_use]
pub fn names_of_rows() -> Vec<String> {
    let of = |scenario: crate::Scenario| {
        MODES.map(|mode| name(scenario.store, scenario.fault, mode)).to_vec()
    };
    suite().into_iter().flat_map(of).collect()
}

/// The names of all figures.
#[must_use]
pub fn names_of_figures() -> Vec<String> {
    FIGURES.iter().map(|figure| figure.name.to_owned()).collect()
}

fn merge(
    page: &str,
    part: &str,
    head: &str,
    (names, new): (&[String], BTreeMap<String, String>),
) -> Result<String> {
    let (before, inside, after) = split(page, part)?;
    let mut lines = head.to_owned();
    for name in names {
        let old = inside.lines().find(|line| line.starts_with(&format!("| {name} |")));
        match (new.get(name), old) {
            (Some(line), _) => lines.push_str(line),
            (None, Some(line)) => lines.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    Ok(format!("{before}{lines}{after}"))
}

/// The page up to the content of a part, the content, and the rest.
fn split<'p>(page: &'p str, part: &str) -> Result<(&'p str, &'p str, &'p str)> {
    let begin = format!("<!-- {part}: generated -->\n");
    let missing = || format!("the page has no part {part}");
    let start = page.find(&begin).ok_or_else(missing)? + begin.len();
    let (before, rest) = page.split_at(start);
    let length = rest.find(END).ok_or_else(missing)?;
    let (inside, after) = rest.split_at(length);
    Ok((before, inside, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/guarantees.md");

    /// The figures come from a run; that they belong to the suite is checked here.
    #[test]
    fn the_page_has_rows_of_the_suite_only() {
        for (part, names) in [("faults", names_of_rows()), ("figures", names_of_figures())] {
            for name in names_in(PAGE, part).unwrap() {
                assert!(names.contains(&name), "{part}: {name}");
            }
        }
    }

    #[test]
    fn a_run_replaces_its_lines_and_keeps_the_others() {
        let names = ["a".to_owned(), "b".to_owned()];
        let page = "<!-- x: generated -->\nhead\n| b | 1 |\n| gone | 1 |\n<!-- end -->\n";
        let new = BTreeMap::from([("a".to_owned(), "| a | 2 |\n".to_owned())]);
        let merged = merge(page, "x", "head\n", (&names, new)).unwrap();
        let expected = "<!-- x: generated -->\nhead\n| a | 2 |\n| b | 1 |\n<!-- end -->\n";
        assert_eq!(merged, expected);
    }
}

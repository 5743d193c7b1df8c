//! A section of a file: its fields are taken by name, and what nobody took is a mistake.

use super::complaint::Complaint;
use super::yaml::{Content, Entry, Node};
use crate::policy::nearest;

/// The fields of a section.
#[derive(Debug)]
pub(super) struct Section<'n> {
    /// Where it is, as a path that ends with a dot, or nothing at the top.
    path: String,
    pub(super) line: usize,
    entries: &'n [Entry],
    known: Vec<&'static str>,
}

impl<'n> Section<'n> {
    /// A section at a path.
    pub(super) fn of(node: &'n Node, path: &str, wrong: &mut Vec<Complaint>) -> Option<Self> {
        let entries = match &node.content {
            Content::Map(entries) => entries.as_slice(),
            Content::Nothing if path.is_empty() => &[],
            _ => {
                let name = if path.is_empty() { "file" } else { path };
                let message = format!("is {}; accepted: a section of fields", node.kind());
                wrong.push(Complaint::at(node.line, name, message));
                return None;
            }
        };
        let path = if path.is_empty() { String::new() } else { format!("{path}.") };
        Some(Self { path, line: node.line, entries, known: Vec::new() })
    }

    /// The path of a field.
    pub(super) fn path_of(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// The line of a field that was written, or of the section.
    pub(super) fn line_of(&self, name: &str) -> usize {
        self.entries.iter().find(|entry| entry.name == name).map_or(self.line, |entry| entry.line)
    }

    /// A field, if it was written.
    pub(super) fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        self.entries.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
    }

    /// A field of text, if it was written.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        wrong: &mut Vec<Complaint>,
    ) -> Option<&'n str> {
        let node = self.node(name)?;
        match &node.content {
            Content::Text(text) => Some(text),
            _ => {
                let message = format!("is {}; accepted: a value", node.kind());
                wrong.push(Complaint::at(node.line, self.path_of(name), message));
                None
            }
        }
    }

    /// A field that is read by `parse`, if it was written and is right.
    pub(super) fn parsed<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        wrong: &mut Vec<Complaint>,
    ) -> Option<T> {
        let text = self.text(name, wrong)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(message) => {
                wrong.push(Complaint::at(self.line_of(name), self.path_of(name), message));
                None
            }
        }
    }

    /// The names that a file chose itself, with their values.
    pub(super) fn named(&self) -> &'n [Entry] {
        self.entries
    }

    /// Complains about every field that nobody asked for.
    pub(super) fn finish(self, wrong: &mut Vec<Complaint>) {
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&&*entry.name)) {
            let hint = match nearest(&entry.name, self.known.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("accepted: {}", self.known.join(", ")),
            };
            let shown: String = entry.name.chars().take(64).collect();
            let message = format!("is not a field; {hint}");
            wrong.push(Complaint::at(entry.line, self.path_of(&shown), message));
        }
    }
}

//! A section of a file: fields are taken by name, and a field that was not taken is an error.

use super::yaml::{Content, Entry, Node};
use super::{ConfigError, Location};
use crate::policy::nearest;

/// The fields of a section.
#[derive(Debug)]
pub struct Section<'n> {
    /// Its path, which ends with a dot; empty at the top.
    path: String,
    /// Where it begins.
    pub place: Location,
    entries: &'n [Entry],
    known: Vec<&'static str>,
}

impl<'n> Section<'n> {
    /// The section of a node at a path, which is empty at the top.
    pub fn of(node: &'n Node, path: &str, errors: &mut Vec<ConfigError>) -> Option<Self> {
        let entries = match &node.content {
            Content::Map(entries) => entries.as_slice(),
            Content::Nothing if path.is_empty() => &[],
            _ => {
                let name = if path.is_empty() { "file" } else { path };
                let message = format!("is {}; write fields, each as `name: value`", node.kind());
                errors.push(ConfigError::at(node.place, name, message));
                return None;
            }
        };
        let path = if path.is_empty() { String::new() } else { format!("{path}.") };
        Some(Self { path, place: node.place, entries, known: Vec::new() })
    }

    /// Reports an error of the value of a field.
    pub fn error(&self, name: &str, message: impl Into<String>, errors: &mut Vec<ConfigError>) {
        errors.push(ConfigError::at(self.place_of(name), self.path_of(name), message));
    }

    /// The path of a field.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    /// Where the value of a field is, if it was written, else the section. A value of several
    /// lines is where its name is.
    #[must_use]
    pub fn place_of(&self, name: &str) -> Location {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map_or(self.place, |entry| match entry.value.content {
            Content::Text(_) => entry.value.place,
            _ => entry.place,
        })
    }

    /// Where the name of a field is, if it was written, else the section.
    #[must_use]
    pub fn name_place_of(&self, name: &str) -> Location {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map_or(self.place, |entry| entry.place)
    }

    /// A field, if it was written.
    pub fn node(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        self.entries.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
    }

    /// A field of text, if it was written.
    pub fn text(&mut self, name: &'static str, errors: &mut Vec<ConfigError>) -> Option<&'n str> {
        let node = self.node(name)?;
        match &node.content {
            Content::Text(text) => Some(text),
            _ => {
                let message = format!("is {}; write a value", node.kind());
                errors.push(ConfigError::at(self.place_of(name), self.path_of(name), message));
                None
            }
        }
    }

    /// A field that `parse` accepts, if it was written.
    pub fn parsed<T>(
        &mut self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        errors: &mut Vec<ConfigError>,
    ) -> Option<T> {
        let text = self.text(name, errors)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.error(name, message, errors);
                None
            }
        }
    }

    /// All fields, for sections whose names are free.
    #[must_use]
    pub const fn entries(&self) -> &'n [Entry] {
        self.entries
    }

    /// Reports every field that was not taken.
    pub fn finish(self, errors: &mut Vec<ConfigError>) {
        for entry in self.entries.iter().filter(|entry| !self.known.contains(&&*entry.name)) {
            let hint = match nearest(&entry.name, self.known.iter().copied()) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("accepted: {}", self.known.join(", ")),
            };
            let name: String = entry.name.chars().take(64).collect();
            let message = format!("is not a field; {hint}");
            errors.push(ConfigError::at(entry.place, self.path_of(&name), message));
        }
    }
}

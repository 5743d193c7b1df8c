//! A policy as a file says it, to show what is in force: every limit with its name, the limits of
//! each key with an override, and what applies without being written.

use std::fmt::{self, Write as _};

use tollgate_core::Rule;
use tollgate_core::algorithm::Kind;

use super::words::LimitWords;

/// Fields with their values, in order. `Display` writes YAML that can be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(Vec<(String, WrittenValue)>);

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenValue {
    /// A text or a number.
    Text(String),
    /// Several sections.
    List(Vec<Written>),
    /// One section.
    Section(Written),
}

impl Written {
    /// Adds the fields of a limit. Its algorithm is among them: an override that names none has the
    /// one of the limit that it replaces.
    pub(crate) fn limit(&mut self, rule: &Rule) {
        let LimitWords { algorithm, rate: (field, rate), option } = LimitWords::of(rule);
        self.text("algorithm", algorithm.as_deref().unwrap_or(Kind::Gcra.name()));
        self.text(field, &rate);
        if let Some((field, value)) = option {
            self.text(field, &value);
        }
    }

    /// Adds a field of text.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), WrittenValue::Text(value.to_owned())));
    }

    /// Adds a field with another value.
    pub(crate) fn add(&mut self, name: &str, value: WrittenValue) {
        self.0.push((name.to_owned(), value));
    }

    /// The fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &WrittenValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// As the value of a field whose lines are indented by this many spaces.
    #[must_use]
    pub fn indented(&self, spaces: usize) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut text, spaces);
        text
    }

    fn write(&self, to: &mut String, spaces: usize) -> fmt::Result {
        for (name, value) in self.fields() {
            write!(to, "{:spaces$}{}:", "", scalar(name))?;
            match value {
                WrittenValue::Text(text) => writeln!(to, " {}", scalar(text))?,
                WrittenValue::Section(section) => {
                    writeln!(to)?;
                    section.write(to, spaces + 2)?;
                }
                WrittenValue::List(items) => {
                    writeln!(to)?;
                    for item in items {
                        let lines = item.indented(spaces + 4);
                        let lines = lines.get(spaces + 4..).unwrap_or_default();
                        write!(to, "{:1$}- {lines}", "", spaces + 2)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.indented(0))
    }
}

/// A text of YAML, in quotes where it would otherwise mean something else.
fn scalar(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_.-/@:+ ".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_alphanumeric() || c == '/');
    let ends_well = !text.ends_with([':', ' ']);
    let means_nothing = text == "null";
    if begins_well
        && ends_well
        && !means_nothing
        && text.chars().all(is_plain)
        && !text.contains(": ")
    {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yaml_would_read_as_something_else_is_in_quotes() {
        for plain in ["100 per 1m", "org:42", "a@b.c", "/a/b", "10_000/day", "naïve"] {
            assert_eq!(scalar(plain), plain);
        }
        for text in ["", "~", "null", "a: b", "a:", "#a", "- a", "*a", "a\nb", "{a", "a #b", "\"'"]
        {
            assert_eq!(scalar(text), serde_json::Value::from(text).to_string());
        }
    }
}

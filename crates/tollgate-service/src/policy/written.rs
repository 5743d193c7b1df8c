//! A policy in the words of a file, to show what is in force: every limit with its name, the limits
//! of each key with an override, and what applies without being written.

use std::fmt::{self, Write as _};
use std::time::Duration;

use tollgate_core::{OutageMode, Quota};

/// The longest units first; a period is written in the longest that divides it.
const UNITS: [(&str, u128); 7] = [
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Fields with their values, in order. `Display` writes YAML that can be read again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written(Vec<(String, WrittenValue)>);

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenValue {
    /// A text or a number, as it was written.
    Text(String),
    /// Several sections.
    List(Vec<Written>),
    /// One section.
    Section(Written),
}

impl Written {
    /// The bucket of a policy that no file has.
    pub(super) fn bucket(capacity: u64, refill: Quota, on_outage: OutageMode) -> Self {
        let mut written = Self::default();
        written.text("algorithm", "token_bucket");
        written.text("refill", &rate(refill));
        written.text("capacity", &capacity.to_string());
        written.text("on_outage", on_outage.as_str());
        written
    }

    /// Adds a field of text.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), WrittenValue::Text(value.to_owned())));
    }

    /// Adds a field with another value.
    pub(crate) fn add(&mut self, name: &str, value: WrittenValue) {
        self.0.push((name.to_owned(), value));
    }

    /// Without a field.
    pub(crate) fn without(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(own, _)| own != name).cloned().collect())
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

/// A rate as a file says it, such as `100 per 1m`.
fn rate(Quota { limit, period }: Quota) -> String {
    format!("{limit} per {}", period_of(period))
}

fn period_of(period: Duration) -> String {
    let micros = period.as_micros();
    let divides = |unit: &&(&str, u128)| micros.is_multiple_of(unit.1);
    let (unit, length) = UNITS.iter().find(divides).copied().unwrap_or(("us", 1));
    format!("{}{unit}", micros / length)
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
    fn periods_are_in_the_longest_unit_that_divides_them() {
        for (micros, expected) in [
            (60_000_000, "5 per 1m"),
            (90_000_000, "5 per 90s"),
            (1_000_000_000, "5 per 1000s"),
            (86_400_000_000, "5 per 1d"),
            (1, "5 per 1us"),
        ] {
            assert_eq!(rate(Quota::new(5, Duration::from_micros(micros))), expected);
        }
    }

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

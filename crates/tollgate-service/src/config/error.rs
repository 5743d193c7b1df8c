//! Errors of a configuration: the place, the field, what is wrong and what to write instead. All
//! errors are reported at once, so that a file is not corrected one error at a time.

use std::fmt;

use super::excerpt::excerpt;

/// The most errors that are printed with the line they are in: finding one reads the file.
const EXCERPTS_MAX: usize = 100;

/// Where something is in a file, counted from 1 in lines and characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The line.
    pub line: usize,
    /// The column of its first character.
    pub column: usize,
    /// How many characters it has in this line.
    pub width: usize,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The place in the file, if it comes from one.
    pub place: Option<Location>,
    /// The field, as a path.
    pub field: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// The line of the file; of a line that may hold a secret or a key, what is wrong alone.
    excerpt: Option<String>,
}

impl ConfigError {
    /// An error at a place in the file.
    pub fn at(place: Location, field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        Self { place: Some(place), field, message, excerpt: None }
    }

    /// An error outside of the file: of a flag, of the environment, or of a missing field.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: None, field: field.into(), message: message.into(), excerpt: None }
    }

    /// The line of the file, if it comes from one.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.place.map(|place| place.line)
    }

    /// The error with its line and a caret below what is wrong.
    fn with_excerpt(&self, f: &mut fmt::Formatter<'_>, file: Option<&str>) -> fmt::Result {
        write!(f, "error: {}: {}", self.field, self.message)?;
        let Some(Location { line, column, width }) = self.place else { return Ok(()) };
        let margin = " ".repeat(line.to_string().len());
        write!(f, "\n{margin}--> {}:{line}:{column}", file.unwrap_or("text"))?;
        let Some(text) = &self.excerpt else { return Ok(()) };
        // A tab stays a tab, so that the caret is below its character.
        let before = text.chars().take(column.saturating_sub(1));
        let before: String = before.map(|c| if c == '\t' { c } else { ' ' }).collect();
        let carets = "^".repeat(width.clamp(1, text.chars().count().max(1)));
        write!(f, "\n{margin} |\n{line} | {text}\n{margin} | {before}{carets}")
    }
}

/// All errors of a configuration; never empty.
///
/// They are printed as one line each; with the alternate format, `{:#}`, each with the line of the
/// file that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, if there is one.
    pub file: Option<String>,
    /// The errors, in the order of their places.
    pub list: Vec<ConfigError>,
}

impl ConfigErrors {
    /// The errors of a file with its name and its text. `is_public` says of a field at the top
    /// whether errors may repeat its value.
    #[must_use]
    pub fn of_file(
        (name, text): (Option<&str>, &str),
        mut list: Vec<ConfigError>,
        is_public: impl Fn(&str) -> bool,
    ) -> Self {
        // Those without a place come first.
        list.sort_by_key(|error| error.place.map(|place| (place.line, place.column)));
        for error in list.iter_mut().take(EXCERPTS_MAX) {
            error.excerpt = error.place.and_then(|place| excerpt(text, place, &is_public));
        }
        Self { file: name.map(str::to_owned), list }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str(if f.alternate() { "\n\n" } else { "\n" })?;
            }
            if f.alternate() {
                error.with_excerpt(f, self.file.as_deref())?;
                continue;
            }
            if let (Some(line), Some(file)) = (error.line(), &self.file) {
                write!(f, "{file}:{line}: ")?;
            }
            write!(f, "{}: {}", error.field, error.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

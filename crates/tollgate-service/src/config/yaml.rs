//! YAML as a tree with line numbers. Strict: one document, no anchors, no tags, and a field appears
//! once.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::ConfigError;

/// The deepest nesting accepted; policies nest six deep.
const DEPTH_MAX: usize = 16;

/// A value of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The line at which it begins, counted from 1.
    pub line: usize,
    /// The value.
    pub content: Content,
}

/// The kinds of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text, quoted or not; a number is text until a field needs a number.
    Text(String),
    /// Nothing was written.
    Nothing,
    /// A list.
    List(Vec<Node>),
    /// A section of fields.
    Map(Vec<Entry>),
}

/// A field and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the field.
    pub name: String,
    /// The line of the name.
    pub line: usize,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The kind of the value, for messages.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.content {
            Content::Text(_) => "a text",
            Content::Nothing => "nothing",
            Content::List(_) => "a list",
            Content::Map(_) => "a section",
        }
    }
}

/// Parses the text of a file.
///
/// # Errors
/// The first error of syntax, or the first use of YAML that is not accepted.
pub fn parse(text: &str) -> Result<Node, ConfigError> {
    let mut events = Events(Parser::new_from_str(text));
    let mut root = None;
    loop {
        match events.next()? {
            (Event::StreamEnd, _) => break,
            (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            (_, span) if root.is_some() => {
                return Err(refused(span, "holds a second document; accepted: one"));
            }
            (event, span) => root = Some(events.node(event, span, 0)?),
        }
    }
    Ok(root.unwrap_or(Node { line: 1, content: Content::Nothing }))
}

struct Events<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Events<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), ConfigError> {
        match self.0.next_event() {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(ConfigError::at(
                error.marker().line(),
                "file",
                format!("is no YAML: {}", error.info()),
            )),
            None => Err(ConfigError::new("file", "ends too early")),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, ConfigError> {
        if depth > DEPTH_MAX {
            return Err(refused(span, "nests too deep"));
        }
        let content = match event {
            Event::Scalar(text, style, 0, None) => scalar(text, style),
            Event::SequenceStart(0, None) => self.list(depth)?,
            Event::MappingStart(0, None) => self.map(depth)?,
            _ => return Err(refused(span, "holds an anchor, an alias or a tag; write it out")),
        };
        Ok(Node { line: span.start.line(), content })
    }

    fn list(&mut self, depth: usize) -> Result<Content, ConfigError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Content, ConfigError> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (name, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Content::Map(entries)),
                (Event::Scalar(name, _, 0, None), span) => (name.into_owned(), span.start.line()),
                (_, span) => return Err(refused(span, "holds a field whose name is no text")),
            };
            if let Some(first) = entries.iter().find(|entry| entry.name == name) {
                let message = format!("appears twice; the first time in line {}", first.line);
                return Err(ConfigError::at(line, name, message));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            entries.push(Entry { name, line, value });
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Content {
    if style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null") {
        return Content::Nothing;
    }
    Content::Text(text.into_owned())
}

fn refused(span: Span, message: &str) -> ConfigError {
    ConfigError::at(span.start.line(), "file", message)
}

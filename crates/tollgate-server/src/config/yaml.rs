//! A file as a tree that knows its lines. Strict: one document, no anchors, no tags, and a field
//! appears once.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::complaint::Complaint;

/// How deep a file may nest; ours nests six deep.
const DEPTH_MAX: usize = 16;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) content: Content,
}

/// What a part of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Text, quoted or not; every number is text until somebody needs a number.
    Text(String),
    /// Nothing was written.
    Nothing,
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A field and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) value: Node,
}

impl Node {
    pub(super) const fn kind(&self) -> &'static str {
        match self.content {
            Content::Text(_) => "a text",
            Content::Nothing => "nothing",
            Content::List(_) => "a list",
            Content::Map(_) => "a section",
        }
    }
}

/// Reads a file.
///
/// # Errors
/// The first thing that makes it no YAML, or a kind of YAML that is refused here.
pub(super) fn read(text: &str) -> Result<Node, Complaint> {
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
    fn next(&mut self) -> Result<(Event<'a>, Span), Complaint> {
        match self.0.next_event() {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => Err(Complaint::at(
                error.marker().line(),
                "file",
                format!("is no YAML: {}", error.info()),
            )),
            None => Err(Complaint::new("file", "ends too early")),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Complaint> {
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

    fn list(&mut self, depth: usize) -> Result<Content, Complaint> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Content, Complaint> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (name, line) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Content::Map(entries)),
                (Event::Scalar(name, _, 0, None), span) => (name.into_owned(), span.start.line()),
                (_, span) => return Err(refused(span, "holds a field whose name is no text")),
            };
            if let Some(first) = entries.iter().find(|entry| entry.name == name) {
                let message = format!("appears twice; the first time in line {}", first.line);
                return Err(Complaint::at(line, name, message));
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

fn refused(span: Span, message: &str) -> Complaint {
    Complaint::at(span.start.line(), "file", message)
}

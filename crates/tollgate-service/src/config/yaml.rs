//! YAML as a tree with places. Strict: one document, no anchors, no tags, and a field appears once.
//!
//! Every error that can be reported is: where the syntax is wrong, each field at the top is read on
//! its own, so that the mistake hides those of its field alone.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::{ConfigError, Location};

/// The deepest nesting accepted; policies nest six deep.
const DEPTH_MAX: usize = 16;
/// The most fields at the top that are read on their own after an error of syntax.
const BLOCKS_MAX: usize = 1_000;

/// A value of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Where it begins.
    pub place: Location,
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
    /// Where the name is.
    pub place: Location,
    /// The value.
    pub value: Node,
}

impl Node {
    /// What a file without a field is.
    #[must_use]
    pub const fn nothing() -> Self {
        let place = Location { line: 1, column: 1, width: 1 };
        Self { place, content: Content::Nothing }
    }

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

    /// The kind of the value with its length, for messages about how many there are.
    pub(super) fn size(&self) -> String {
        match &self.content {
            Content::List(items) => format!("a list of {}", items.len()),
            Content::Map(entries) => format!("a section of {}", entries.len()),
            Content::Text(_) | Content::Nothing => self.kind().to_owned(),
        }
    }

    /// Moves it down by some lines.
    fn shift(&mut self, lines: usize) {
        self.place.line += lines;
        match &mut self.content {
            Content::List(items) => items.iter_mut().for_each(|item| item.shift(lines)),
            Content::Map(entries) => entries.iter_mut().for_each(|entry| entry.shift(lines)),
            Content::Text(_) | Content::Nothing => {}
        }
    }
}

impl Entry {
    fn shift(&mut self, lines: usize) {
        self.place.line += lines;
        self.value.shift(lines);
    }
}

/// Parses the text of a file. What is wrong is reported, and left out where the rest has a meaning
/// without it; `None` if nothing has.
pub fn parse(text: &str, errors: &mut Vec<ConfigError>) -> Option<Node> {
    let mut own = Vec::new();
    match document(text, &mut own) {
        Ok(root) => {
            errors.extend(own);
            Some(root)
        }
        Err(Stopped::TooDeep(error)) => {
            errors.extend(own.into_iter().chain([error]));
            None
        }
        // What was read until then is read again.
        Err(Stopped::Syntax(error)) => by_block(text, error, errors),
    }
}

/// Why parsing cannot go on.
enum Stopped {
    Syntax(ConfigError),
    TooDeep(ConfigError),
}

type Parsed<T> = Result<T, Stopped>;

fn document(text: &str, errors: &mut Vec<ConfigError>) -> Parsed<Node> {
    let mut events = Events { parser: Parser::new_from_str(text), errors };
    let mut root = None;
    loop {
        match events.next()? {
            (Event::StreamEnd, _) => break,
            (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
            (_, span) if root.is_some() => {
                events.refuse(span, "holds a second document; write one, without `---` between");
                break;
            }
            (event, span) => root = Some(events.node(event, span, 0)?),
        }
    }
    Ok(root.unwrap_or(Node::nothing()))
}

/// Reads each field at the top on its own. Without an error in any of them, `whole` is reported:
/// the error of the whole text.
fn by_block(text: &str, whole: ConfigError, errors: &mut Vec<ConfigError>) -> Option<Node> {
    let blocks = blocks(text);
    if blocks.is_empty() || blocks.len() > BLOCKS_MAX {
        errors.push(whole);
        return None;
    }
    let mut entries: Vec<Entry> = Vec::new();
    let before = errors.len();
    for (lines, block) in blocks {
        let mut own = Vec::new();
        let node = document(block, &mut own);
        match node {
            Ok(Node { content: Content::Map(found), .. }) => {
                for mut entry in found {
                    entry.shift(lines);
                    match first_of(&entries, &entry.name) {
                        Some(first) => errors.push(twice(&entry.name, entry.place, first)),
                        None => entries.push(entry),
                    }
                }
            }
            Ok(Node { content: Content::Nothing, .. }) => {}
            // It may be a secret without its colon: it is not repeated.
            Ok(Node { place, .. }) => {
                own.push(ConfigError::at(place, "file", "is not a field; write `name: value`"));
            }
            Err(Stopped::Syntax(error) | Stopped::TooDeep(error)) => own.push(error),
        }
        errors.extend(own.into_iter().map(|mut error| {
            error.place = error.place.map(|place| Location { line: place.line + lines, ..place });
            error
        }));
    }
    if errors.len() == before {
        errors.push(whole);
    }
    Some(Node { content: Content::Map(entries), ..Node::nothing() })
}

/// The fields at the top of a text in blocks: the lines before each, and its text. None if the text
/// is not made of such fields.
fn blocks(text: &str) -> Vec<(usize, &str)> {
    let mut blocks = Vec::new();
    // Lines and bytes before the block, and before the line.
    let (mut start, mut position) = ((0, 0), 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let begins = !line.starts_with([' ', '\t', '#', '\r', '\n']);
        if begins && line.starts_with(['{', '[', '-', '%', '?', '&', '!', '}', ']']) {
            return Vec::new();
        }
        if begins && position > 0 {
            blocks.extend(text.get(start.1..position).map(|block| (start.0, block)));
            start = (number, position);
        }
        position += line.len();
    }
    blocks.extend(text.get(start.1..).map(|block| (start.0, block)));
    blocks
}

fn first_of(entries: &[Entry], name: &str) -> Option<usize> {
    entries.iter().find(|entry| entry.name == name).map(|entry| entry.place.line)
}

fn twice(name: &str, place: Location, first: usize) -> ConfigError {
    let message = format!("appears twice, for the first time in line {first}; write it once");
    ConfigError::at(place, name, message)
}

struct Events<'a, 'e> {
    parser: Parser<'a, StrInput<'a>>,
    errors: &'e mut Vec<ConfigError>,
}

impl<'a> Events<'a, '_> {
    fn next(&mut self) -> Parsed<(Event<'a>, Span)> {
        match self.parser.next_event() {
            Some(Ok(found)) => Ok(found),
            Some(Err(error)) => {
                let marker = error.marker();
                let place = Location { line: marker.line(), column: marker.col() + 1, width: 1 };
                let message = format!("is not YAML: {}", error.info());
                Err(Stopped::Syntax(ConfigError::at(place, "file", message)))
            }
            None => Err(Stopped::Syntax(ConfigError::new("file", "ends too early"))),
        }
    }

    fn refuse(&mut self, span: Span, message: &str) {
        self.errors.push(ConfigError::at(place(span), "file", message));
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Parsed<Node> {
        if depth > DEPTH_MAX {
            let error = ConfigError::at(place(span), "file", "nests too deep");
            return Err(Stopped::TooDeep(error));
        }
        let message = "holds an anchor, an alias or a tag; write the value itself";
        if let Event::Scalar(_, _, anchor, tag) = &event
            && (*anchor != 0 || tag.is_some())
        {
            self.refuse(span, message);
        }
        if let Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) = &event
            && (*anchor != 0 || tag.is_some())
        {
            self.refuse(span, message);
        }
        let content = match event {
            Event::Scalar(text, style, ..) => scalar(text, style),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            _ => {
                self.refuse(span, message);
                Content::Nothing
            }
        };
        Ok(Node { place: place(span), content })
    }

    fn list(&mut self, depth: usize) -> Parsed<Content> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Content::List(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Parsed<Content> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (name, name_place) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Content::Map(entries)),
                (Event::Scalar(name, _, 0, None), span) => (Some(name.into_owned()), place(span)),
                (event, span) => {
                    self.refuse(span, "holds a field whose name is not a text; write a text");
                    self.node(event, span, depth + 1)?;
                    (None, place(span))
                }
            };
            let (event, span) = self.next()?;
            let value = self.node(event, span, depth + 1)?;
            let Some(name) = name else { continue };
            match first_of(&entries, &name) {
                Some(first) => self.errors.push(twice(&name, name_place, first)),
                None => entries.push(Entry { name, place: name_place, value }),
            }
        }
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Content {
    if style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null") {
        return Content::Nothing;
    }
    Content::Text(text.into_owned())
}

fn place(Span { start, end }: Span) -> Location {
    let width = if start.line() == end.line() { end.col().saturating_sub(start.col()) } else { 1 };
    Location { line: start.line(), column: start.col() + 1, width: width.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Node>, Vec<(Option<usize>, String)>) {
        let mut errors = Vec::new();
        let node = parse(text, &mut errors);
        let errors = errors.into_iter().map(|error| (error.line(), error.message));
        (node, errors.collect())
    }

    fn names(node: Option<Node>) -> Vec<String> {
        match node.map(|node| node.content) {
            Some(Content::Map(entries)) => entries.into_iter().map(|entry| entry.name).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_place_is_that_of_the_name_or_the_value() {
        let (node, errors) = read("# first\na:\n  bb: 'c d'\n");
        assert_eq!(errors, []);
        let Some(Node { content: Content::Map(top), .. }) = node else { panic!() };
        assert_eq!(top[0].place, Location { line: 2, column: 1, width: 1 });
        let Content::Map(inner) = &top[0].value.content else { panic!() };
        assert_eq!(inner[0].place, Location { line: 3, column: 3, width: 2 });
        assert_eq!(inner[0].value.place, Location { line: 3, column: 7, width: 5 });
    }

    #[test]
    fn every_use_of_what_is_not_accepted_is_an_error_of_its_own() {
        let (node, errors) = read("a: &x 1\nb: *x\nc: !!str 1\n? [d]\n: 1\na: 2\ne: 3\n");
        let lines: Vec<_> = errors.iter().map(|(line, _)| line.unwrap()).collect();
        assert_eq!(lines, [1, 2, 3, 4, 6], "{errors:?}");
        assert_eq!(names(node), ["a", "b", "c", "e"]);
    }

    #[test]
    fn an_error_of_syntax_hides_its_own_field_alone() {
        let text = "a: 1\nhttp off\nb:\n  - {x: 1\n\n# c\nc: [1, 2]\nb: 3\nc: 4\n";
        let (node, errors) = read(text);
        let lines: Vec<_> = errors.iter().map(|(line, _)| line.unwrap()).collect();
        // `b` of line 3 could not be read: that of line 8 is not its second one.
        assert_eq!(lines.len(), 3, "{errors:?}");
        assert_eq!((lines[0], lines[2]), (2, 9), "{errors:?}");
        assert!((4..=8).contains(&lines[1]), "{errors:?}");
        assert_eq!(names(node), ["a", "c", "b"]);
    }

    #[test]
    fn a_text_that_is_not_made_of_fields_has_one_error_of_syntax() {
        for text in ["{a: 1\nb: 2", "- a\n b: c: d\n", "[", "{"] {
            let (node, errors) = read(text);
            assert!(node.is_none() && errors.len() == 1, "{text}: {errors:?}");
        }
    }
}

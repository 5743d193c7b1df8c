//! Rules about lines of text: width, and words that the project does not use.
//!
//! A word is found in prose and in names alike: `TicketQueue`, `last_words` and "the last words" are
//! split into words first. A word in quotes or backticks is a quotation, and passes.

use crate::files::File;

/// Columns that a line may have.
const COLUMNS_MAX: usize = 100;

/// The paths whose lines are not checked: generated, or data, or the list of words itself.
const EXEMPT: [&str; 4] =
    ["/generated/", "/tests/clients/", "xtask/src/tidy/text.rs", "tests/it/golden/"];

/// Metaphors and persons in the place of a plain word.
///
/// A plural counts as its singular. Several words must follow each other.
const WORDS: [&str; 36] = [
    // Metaphors: waiter, queue, round, node, connection are the words.
    "lane",
    "desk",
    "flight",
    "ticket",
    "seat",
    "district",
    "stranger",
    "twin",
    "crowd",
    "crew",
    "hearsay",
    "overhear",
    "whereabouts",
    // Persons: the caller, the limiter, the store, the server act.
    "whoever",
    "whomever",
    "nobody",
    "somebody",
    "everybody",
    "everyone",
    "someone",
    "anybody",
    "those who",
    "he who",
    "people who",
    // Turns of phrase: say what happens.
    "patience",
    "last word",
    "goes away",
    "go away",
    "going away",
    "gone away",
    "went away",
    "told apart",
    "tell apart",
    "so many",
    "has heard",
    "lets go",
];

/// Words that are terms of the field in this company: the word before, and the word.
const TERMS: [(&str, &str); 3] = [("in", "flight"), ("session", "ticket"), ("severity", "ticket")];

/// Names of types that say nothing in a codebase of this size: each named several types once. A type
/// is named after what it is: `Position`, `KeyHash`, `QueuedCall`.
const TYPES: [&str; 8] = ["Found", "Kept", "Look", "Place", "Shape", "Sign", "Trust", "Way"];

/// No line is wider than 100 columns, except tables of Markdown and lines with a link.
pub(crate) fn lines_are_narrow(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() || file.is_markdown()) {
        if is_exempt(&file.path) {
            continue;
        }
        let may_be_wide = |line: &str| {
            line.contains("://") || (file.is_markdown() && line.trim_start().starts_with('|'))
        };
        for (number, line) in file.lines().filter(|(_, line)| !may_be_wide(line)) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                wrong.push(format!("{}:{number}: has {columns} columns", file.path));
            }
        }
    }
    wrong
}

/// No file has one of the words.
pub(crate) fn words_are_plain(files: &[File]) -> Vec<String> {
    all_words(files).map(|found| found.message()).collect()
}

/// No type of a crate has one of the names.
pub(crate) fn types_have_names(files: &[File]) -> Vec<String> {
    const KINDS: [&str; 4] = ["enum", "struct", "trait", "type"];
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/")) {
        for (number, line) in file.lines() {
            let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
            let mut words = words.filter(|word| !word.is_empty());
            let is_declared = words.any(|word| KINDS.contains(&word));
            let name = words.next().filter(|name| is_declared && TYPES.contains(name));
            if let Some(name) = name.filter(|_| !line.trim_start().starts_with("//")) {
                wrong.push(format!("{}:{number}: `{name}` says nothing", file.path));
            }
        }
    }
    wrong
}

/// The words that are left, per part of the repository.
pub(crate) fn print_words(files: &[File]) {
    let mut parts = std::collections::BTreeMap::<String, Vec<String>>::new();
    for found in all_words(files) {
        let folders = if found.path.starts_with("crates/") { 2 } else { 1 };
        let part: Vec<&str> = found.path.split('/').take(folders).collect();
        parts.entry(part.join("/")).or_default().push(found.message());
    }
    for found in parts.values() {
        println!("{}", found.join("\n"));
    }
    for (part, found) in &parts {
        println!("{:>5} {part}", found.len());
    }
}

/// One of the words, in its place.
#[derive(Debug)]
struct WordUse {
    path: String,
    line: usize,
    word: &'static str,
}

impl WordUse {
    fn message(&self) -> String {
        format!("{}:{}: says \"{}\"", self.path, self.line, self.word)
    }
}

fn all_words(files: &[File]) -> impl Iterator<Item = WordUse> {
    const TEXTS: [&str; 6] = [".rs", ".md", ".toml", ".lua", ".proto", ".yaml"];
    let is_text = |path: &str| TEXTS.iter().any(|end| path.ends_with(end)) && !is_exempt(path);
    files.iter().filter(move |file| is_text(&file.path)).flat_map(|file| {
        file.lines().flat_map(move |(line, text)| {
            words_in(text).into_iter().map(move |word| WordUse {
                path: file.path.clone(),
                line,
                word,
            })
        })
    })
}

/// The words of the list in a line.
fn words_in(line: &str) -> Vec<&'static str> {
    let words = split(line);
    let is_at = |phrase: &str, start: usize| {
        let mut rest = words.iter().skip(start);
        phrase.split(' ').all(|part| {
            rest.next().is_some_and(|word| word == part || word.strip_suffix('s') == Some(part))
        })
    };
    let is_term = |phrase: &str, start: usize| {
        let before = start.checked_sub(1).and_then(|before| words.get(before));
        TERMS.iter().any(|(first, word)| *word == phrase && before.is_some_and(|it| it == first))
    };
    let finds = |phrase: &&&'static str| {
        (0..words.len()).any(|start| is_at(phrase, start) && !is_term(phrase, start))
    };
    WORDS.iter().filter(finds).copied().collect()
}

/// The words of a line, in lower case; a quoted word is empty.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut opening = ' ';
    let mut before = ' ';
    for letter in line.chars().chain([' ']) {
        let starts = letter.is_uppercase() && before.is_lowercase();
        if (starts || !letter.is_alphabetic()) && !word.is_empty() {
            let is_quoted = letter == opening && matches!(letter, '"' | '`');
            words.push(if is_quoted { String::new() } else { std::mem::take(&mut word) });
            word.clear();
        }
        if letter.is_alphabetic() {
            if word.is_empty() {
                opening = before;
            }
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

fn is_exempt(path: &str) -> bool {
    EXEMPT.iter().any(|exempt| path.contains(exempt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_line_is_found() {
        let complaints = |path, text: &str| lines_are_narrow(&[File::new(path, text)]).len();
        let wide = "ä ".repeat(51);
        assert_eq!(complaints("docs/a.md", &wide), 1);
        assert_eq!(complaints("src/a.rs", &format!("// {wide}")), 1);
        assert_eq!(complaints("src/a.rs", &"ä".repeat(100)), 0);
        assert_eq!(complaints("docs/a.md", &format!("| {wide} |")), 0);
        assert_eq!(complaints("docs/a.md", &format!("<https://{}>", "a".repeat(100))), 0);
        assert_eq!(complaints("crates/x/src/generated/a.rs", &wide), 0);
    }

    #[test]
    fn a_word_is_found_in_prose_and_in_names() {
        for text in [
            "/// Whoever waits.",
            "struct TicketQueue;",
            "let last_words = 1;",
            "the lanes of a key",
            "callers that go away",
            "fn twin_agrees() {}",
            "is_nobody()",
        ] {
            assert_eq!(words_in(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn other_words_and_quotations_pass() {
        for text in [
            "between two planes",
            "the user `nobody`",
            "not \"whoever\"",
            "requests in flight",
            "a TLS session ticket",
            "fn preflight() {}",
            "word by word",
        ] {
            assert!(words_in(text).is_empty(), "{text}: {:?}", words_in(text));
        }
    }

    #[test]
    fn a_type_with_a_name_that_says_nothing_is_found() {
        let complaints = |text| types_have_names(&[File::new("crates/a/src/b.rs", text)]).len();
        for text in ["struct Place {", "pub(super) enum Found<T> {", "    type Way = u8;"] {
            assert_eq!(complaints(text), 1, "{text}");
        }
        for text in ["// The type Place.", "struct Placed;", "let place = Place::new();"] {
            assert_eq!(complaints(text), 0, "{text}");
        }
    }

    #[test]
    fn a_word_names_its_line() {
        let files = [File::new("docs/a.md", "Plain.\nWhoever reads.\n")];
        assert_eq!(words_are_plain(&files), ["docs/a.md:2: says \"whoever\""]);
    }
}

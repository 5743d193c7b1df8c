//! The tokens as a list of the file: texts, or sections with the policies that a token is for. It
//! is the same as one text with all of them.

use tollgate_service::config::yaml::{Content, Node};
use tollgate_service::config::{ConfigError, Section};

/// The characters that separate tokens and policies in one text.
const SEPARATORS: [char; 3] = [',', ':', '+'];
const ACCEPTED: &str = "accepted: tokens, and sections such as {token: …, policies: [api]}";

/// The text of a list of tokens. Errors name the element, and repeat nothing of it.
pub(super) fn text<'n>(
    file: &mut Section<'n>,
    name: &'static str,
    errors: &mut Vec<ConfigError>,
) -> Option<String> {
    let node = file.node(name)?;
    let Content::List(items) = &node.content else {
        return file.text(name, errors).map(str::to_owned);
    };
    let each = items
        .iter()
        .enumerate()
        .map(|(index, item)| token(item, &format!("{name}[{index}]"), errors));
    let all: Vec<Option<String>> = each.collect();
    all.into_iter().collect::<Option<Vec<_>>>().map(|tokens| tokens.join(","))
}

/// One element.
fn token(node: &Node, path: &str, errors: &mut Vec<ConfigError>) -> Option<String> {
    match &node.content {
        Content::Text(token) => plain(token, (node, path), errors),
        Content::Map(_) => {
            let mut section = Section::of(node, path, errors)?;
            let token = section.text("token", errors);
            let policies = section.node("policies");
            if token.is_none() {
                section.error("token", "is missing", errors);
            }
            let names = policies.map(|policies| names(policies, path, errors));
            section.finish(errors);
            let token = plain(token?, (node, path), errors)?;
            match names {
                None => Some(token),
                Some(names) => Some(format!("{token}:{}", names?.join("+"))),
            }
        }
        _ => {
            errors.push(ConfigError::at(
                node.place,
                path,
                format!("is {}; {ACCEPTED}", node.kind()),
            ));
            None
        }
    }
}

/// A token without the characters that would end it.
fn plain(
    token: &str,
    (node, path): (&Node, &str),
    errors: &mut Vec<ConfigError>,
) -> Option<String> {
    if token.trim().is_empty() || token.contains([',', ':']) {
        let message = "is no token; accepted: a text without commas and colons";
        errors.push(ConfigError::at(node.place, path, message));
        return None;
    }
    Some(token.trim().to_owned())
}

/// The names of policies.
fn names(node: &Node, path: &str, errors: &mut Vec<ConfigError>) -> Option<Vec<String>> {
    let name = |item: &Node| match &item.content {
        Content::Text(name) if !name.is_empty() && !name.contains(SEPARATORS) => Some(name.clone()),
        _ => None,
    };
    let names = match &node.content {
        Content::List(items) if !items.is_empty() => items.iter().map(name).collect(),
        _ => None,
    };
    if names.is_none() {
        let message = "is not accepted; accepted: a list of names of policies";
        errors.push(ConfigError::at(node.place, format!("{path}.policies"), message));
    }
    names
}

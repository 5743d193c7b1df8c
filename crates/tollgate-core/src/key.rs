//! What is limited: a prefix and a policy (validated names) and a subject (any text).
//!
//! A key travels as its parts. Remote stores join them with [`Key::write_to`], the one place that
//! does; the memory store hashes the parts and joins nothing.

use core::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The longest name accepted, in bytes.
pub(crate) const NAME_MAX_BYTES: usize = 64;

/// The name of a policy or a prefix: 1 to 64 characters of `A-Z a-z 0-9 _ . -`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Accepts a name.
    ///
    /// # Errors
    /// `config_invalid` naming `field` when the name is empty, too long or has another character.
    pub fn new(field: &'static str, name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > NAME_MAX_BYTES {
            let length = name.len();
            return Err(Error::config(
                field,
                format!("has {length} bytes; accepted: 1 to {NAME_MAX_BYTES}"),
            ));
        }
        match name
            .chars()
            .find(|c| !matches!(c, 'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '.' | '-'))
        {
            Some(odd) => Err(Error::config(
                field,
                format!("holds {odd:?}; accepted: letters, digits, '_', '.' and '-'"),
            )),
            None => Ok(Self(name.into())),
        }
    }

    /// The name as text.
    #[must_use]
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

/// What is limited. Two keys are the same exactly when all three parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a> {
    /// The namespace of the application.
    pub prefix: &'a Name,
    /// The policy the key is limited under.
    pub policy: &'a Name,
    /// Who or what is limited: any text.
    pub subject: &'a str,
}

impl Key<'_> {
    /// Appends `prefix:policy:{subject}`, the text of the key on every remote store.
    ///
    /// The subject is percent-encoded for `% : { }`, an empty one becomes a lone `%`: so no two
    /// keys share a text, and the hash tag of a Redis Cluster is never empty.
    pub fn write_to(&self, out: &mut String) {
        out.push_str(self.prefix.as_str());
        out.push(':');
        out.push_str(self.policy.as_str());
        out.push_str(":{");
        if self.subject.is_empty() {
            out.push('%');
        }
        // Most subjects have nothing to encode, and are copied as they are.
        let mut rest = self.subject;
        while let Some((plain, encoded, after)) = split_at_special(rest) {
            out.push_str(plain);
            out.push_str(encoded);
            rest = after;
        }
        out.push_str(rest);
        out.push('}');
    }

    /// The text of the key on every remote store, as a new string.
    #[must_use]
    pub fn to_text(&self) -> String {
        let names = self.prefix.as_str().len() + self.policy.as_str().len();
        let mut text = String::with_capacity(names + self.subject.len() + 4);
        self.write_to(&mut text);
        text
    }
}

/// What stands before the first character that must be encoded, its encoding, and what follows.
fn split_at_special(text: &str) -> Option<(&str, &'static str, &str)> {
    let at = text.bytes().position(|byte| matches!(byte, b'%' | b':' | b'{' | b'}'))?;
    let (plain, rest) = text.split_at_checked(at)?;
    let (special, after) = rest.split_at_checked(1)?;
    let encoded = match special {
        "%" => "%25",
        ":" => "%3A",
        "{" => "%7B",
        _ => "%7D",
    };
    Some((plain, encoded, after))
}

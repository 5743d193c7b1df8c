//! Encodes replies, in both versions of the protocol.

use std::io::Write;

use tollgate::{Code, Name};

/// A reply to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(&'static str),
    /// A code in capitals, and a message.
    Error(String),
    Int(i64),
    /// 1 or 0 in version 2.
    Truth(bool),
    Bulk(String),
    /// A name of the configuration, or a word of the protocol.
    Name(Name),
    Word(&'static str),
    Array(Vec<Self>),
    /// The beginning of an array of this many replies, which follow.
    ArrayOf(usize),
    /// A list of pairs in version 2.
    Map(Vec<(Self, Self)>),
    /// Values under names: in version 2 a list of the values, in version 3 a map, without those
    /// that are null.
    Fields(Vec<(&'static str, Self)>),
    Null,
}

/// The version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Version {
    #[default]
    Two,
    Three,
}

impl Reply {
    /// An error; control characters are removed, so that it stays one line.
    pub(super) fn error(code: &str, message: &str) -> Self {
        let message: String = message.chars().filter(|c| !c.is_control()).take(512).collect();
        Self::Error(format!("{code} {message}"))
    }

    /// The code of an error that is the fault of the client.
    pub(super) fn refusal(&self) -> Option<Code> {
        let Self::Error(text) = self else { return None };
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "NOAUTH" | "WRONGPASS" => Some(Code::Unauthorized),
            "NOPERM" => Some(Code::Forbidden),
            "CONFLICT" => Some(Code::IdempotencyConflict),
            "ERR" => match rest.split_once(':') {
                Some(("unknown_policy", _)) => Some(Code::UnknownPolicy),
                Some(("unsupported", _)) => Some(Code::Unsupported),
                Some(("corrupt_state" | "config_invalid", _)) => None,
                _ => Some(Code::InvalidRequest),
            },
            _ => None,
        }
    }

    /// A whole number; the largest that the protocol has for those above.
    pub(super) fn number(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// Milliseconds to wait; −1 if waiting is useless.
    pub(super) fn wait(wait_ms: Option<u64>) -> Self {
        wait_ms.map_or(Self::Int(-1), Self::number)
    }

    /// Appends the encoded reply.
    pub(super) fn write_to(&self, out: &mut Vec<u8>, version: Version) {
        let is_three = version == Version::Three;
        // Writing to memory does not fail.
        let _never = match self {
            Self::Simple(text) => write!(out, "+{text}\r\n"),
            Self::Error(text) => write!(out, "-{text}\r\n"),
            Self::Int(number) => write!(out, ":{number}\r\n"),
            Self::Truth(truth) if is_three => {
                out.write_all(if *truth { b"#t\r\n" } else { b"#f\r\n" })
            }
            Self::Truth(truth) => write!(out, ":{}\r\n", u8::from(*truth)),
            Self::Bulk(text) => bulk(out, text),
            Self::Name(name) => bulk(out, name.as_str()),
            Self::Word(text) => bulk(out, text),
            Self::Null if is_three => write!(out, "_\r\n"),
            Self::Null => write!(out, "$-1\r\n"),
            Self::Array(elements) => write!(out, "*{}\r\n", elements.len()),
            Self::ArrayOf(length) => write!(out, "*{length}\r\n"),
            Self::Map(pairs) if is_three => write!(out, "%{}\r\n", pairs.len()),
            Self::Map(pairs) => write!(out, "*{}\r\n", 2 * pairs.len()),
            Self::Fields(fields) if is_three => {
                write!(out, "%{}\r\n", fields.iter().filter(|(_, value)| !value.is_null()).count())
            }
            Self::Fields(fields) => write!(out, "*{}\r\n", fields.len()),
        };
        match self {
            Self::Array(elements) => elements.iter().for_each(|one| one.write_to(out, version)),
            Self::Map(pairs) => {
                for (key, value) in pairs {
                    key.write_to(out, version);
                    value.write_to(out, version);
                }
            }
            Self::Fields(fields) if is_three => {
                for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                    Self::Word(name).write_to(out, version);
                    value.write_to(out, version);
                }
            }
            Self::Fields(fields) => fields.iter().for_each(|(_, one)| one.write_to(out, version)),
            _ => {}
        }
    }

    const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// The value, or null.
impl<T: Into<Self>> From<Option<T>> for Reply {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self::Bulk(text)
    }
}

impl From<&Name> for Reply {
    fn from(name: &Name) -> Self {
        Self::Name(name.clone())
    }
}

impl From<&'static str> for Reply {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<u64> for Reply {
    fn from(number: u64) -> Self {
        Self::number(number)
    }
}

fn bulk(out: &mut Vec<u8>, text: &str) -> std::io::Result<()> {
    write!(out, "${}\r\n{text}\r\n", text.len())
}

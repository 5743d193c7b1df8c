//! Encodes replies, in both versions of the protocol.

use std::io::Write;

/// A reply to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(&'static str),
    /// A code in capitals, and a message.
    Error(String),
    Int(i64),
    Bulk(String),
    Array(Vec<Self>),
    /// A list of pairs in version 2.
    Map(Vec<(Self, Self)>),
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

    /// Appends the encoded reply.
    pub(super) fn write_to(&self, out: &mut Vec<u8>, version: Version) {
        // Writing to memory does not fail.
        let _never = match self {
            Self::Simple(text) => write!(out, "+{text}\r\n"),
            Self::Error(text) => write!(out, "-{text}\r\n"),
            Self::Int(number) => write!(out, ":{number}\r\n"),
            Self::Bulk(text) => write!(out, "${}\r\n{text}\r\n", text.len()),
            Self::Null if version == Version::Three => write!(out, "_\r\n"),
            Self::Null => write!(out, "$-1\r\n"),
            Self::Array(elements) => write!(out, "*{}\r\n", elements.len()),
            Self::Map(pairs) if version == Version::Three => write!(out, "%{}\r\n", pairs.len()),
            Self::Map(pairs) => write!(out, "*{}\r\n", 2 * pairs.len()),
        };
        match self {
            Self::Array(elements) => elements.iter().for_each(|one| one.write_to(out, version)),
            Self::Map(pairs) => {
                for (key, value) in pairs {
                    key.write_to(out, version);
                    value.write_to(out, version);
                }
            }
            _ => {}
        }
    }
}

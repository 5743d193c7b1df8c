//! As much of structured fields (RFC 9651) as the rate limit fields of every draft need.
//!
//! A field is a list of members, a member an item with parameters; a member of a dictionary is
//! `name=value` with parameters. Integers are parsed, values of other types are skipped. A
//! malformed field is ignored as a whole.

/// One member of a list or dictionary: its segments between semicolons.
pub(crate) struct Member<'a> {
    segments: Vec<&'a str>,
}

/// The members of a field; `None` when it is malformed.
pub(crate) fn members(text: &str) -> Option<Vec<Member<'_>>> {
    let members = split(text, ',')?.into_iter();
    members.map(|member| split(member, ';').map(|segments| Member { segments })).collect()
}

impl Member<'_> {
    /// The integer of the last parameter of one of these names; `Some(None)` when there is none,
    /// and `None` when it is no integer.
    pub(crate) fn parameter(&self, names: &[&str]) -> Option<Option<u64>> {
        integer_of(self.segments.iter().skip(1), names)
    }

    /// The same for a member of a dictionary.
    pub(crate) fn named(&self, name: &str) -> Option<Option<u64>> {
        integer_of(self.segments.iter().take(1), &[name])
    }
}

fn integer_of<'a>(
    segments: impl Iterator<Item = &'a &'a str>,
    names: &[&str],
) -> Option<Option<u64>> {
    let mut found = None;
    for (name, value) in segments.filter_map(|segment| segment.split_once('=')) {
        if names.contains(&name) {
            found = Some(integer(value)?);
        }
    }
    Some(found)
}

/// A non-negative integer of at most 15 digits.
pub(crate) fn integer(text: &str) -> Option<u64> {
    let is_integer = (1..=15).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_digit());
    if is_integer { text.parse().ok() } else { None }
}

/// Splits at a separator that is not inside a string; `None` when a string does not end, or a piece
/// is empty.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let mut pieces = Vec::new();
    let (mut quoted, mut escaped) = (false, false);
    let mut start = 0;
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                pieces.push(text.get(start..index)?.trim());
                start = index + c.len_utf8();
            }
            _ => {}
        }
    }
    pieces.push(text.get(start..)?.trim());
    (!quoted && pieces.iter().all(|piece| !piece.is_empty())).then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_hide_separators() {
        let list = members(r#""a;b,\"c";r=1;t=2, x;r=3"#).unwrap();
        let read: Vec<_> = list.iter().map(|one| one.parameter(&["r"])).collect();
        assert_eq!(read, [Some(Some(1)), Some(Some(3))]);
    }

    #[test]
    fn what_is_malformed_is_nothing() {
        for text in ["", "\"a", "a,,b", "a;;r=1", "\"a\\\"", ","] {
            assert!(members(text).is_none(), "{text}");
        }
        for number in ["", "-1", "1.5", "+1", "1234567890123456", "0x1", "\"1\""] {
            assert_eq!(integer(number), None, "{number}");
            let text = format!("\"p\";r={number}");
            let list = members(&text);
            assert!(list.is_none_or(|list| list[0].parameter(&["r"]).is_none()), "{text}");
        }
    }
}

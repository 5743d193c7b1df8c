//! The line of a file that an error prints. Secrets and keys never are in it: a line is whole in a
//! field at the top whose value is public, or in a policy outside of its overrides; of every other
//! line only what is wrong remains.

use super::Location;

/// The longest line that is printed, in characters.
const LINE_MAX: usize = 200;
/// The section of a policy whose fields are keys.
const OVERRIDES: &str = "overrides";

/// What may be printed of the line of a place; nothing of a line that is too long.
pub(super) fn excerpt(
    text: &str,
    place: Location,
    is_public: impl Fn(&str) -> bool,
) -> Option<String> {
    let mut top = "";
    // How deep the section of overrides is indented, within one.
    let mut overrides: Option<usize> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let is_blank = content.is_empty() || content.starts_with('#');
        if !is_blank {
            if indent == 0 {
                top = content.split(':').next().unwrap_or_default();
            }
            overrides = overrides.filter(|section| indent > *section);
        }
        if number == place.line {
            let has_keys = overrides.is_some() || content.contains(OVERRIDES);
            return printable(line, place, is_public(top) && !has_keys);
        }
        if !is_blank && overrides.is_none() && content.contains(OVERRIDES) {
            // Within braces the indentation means nothing: until the next field at the top.
            overrides = Some(if content.starts_with(OVERRIDES) { indent } else { 0 });
        }
    }
    None
}

/// A line, or of it only what is at the place.
fn printable(line: &str, place: Location, is_whole: bool) -> Option<String> {
    let Location { column, width, .. } = place;
    let own = (column.saturating_sub(1), column.saturating_sub(1).saturating_add(width));
    if line.chars().take(LINE_MAX + 1).count() > LINE_MAX {
        return None;
    }
    let shown = line.chars().enumerate().map(|(index, c)| match c {
        '\t' => '\t',
        _ if !is_whole && (index < own.0 || index >= own.1) => ' ',
        // A terminal must not obey it.
        c if c.is_control() => '\u{fffd}',
        c => c,
    });
    Some(shown.collect::<String>().trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "tokens: a-secret
deadline: fast
policies:
  a: {limit: lots}
  b:
    limit: 1 per 1s
    overrides:
      a-key: {limit: few}

    burst: none
  c: {limit: 1 per 1s, overrides: {
    a-key: {limit: few}}}
  d: {limit: no}
unknown: a-secret
";

    fn line(number: usize, wrong: &str) -> Option<String> {
        let text = TEXT.lines().nth(number - 1)?;
        let column = text.find(wrong)? + 1;
        let place = Location { line: number, column, width: wrong.len() };
        excerpt(TEXT, place, |name| ["deadline", "policies"].contains(&name))
    }

    #[test]
    fn a_line_is_whole_unless_it_may_hold_a_secret_or_a_key() {
        for (number, wrong, expected) in [
            (1, "tokens", "tokens"),
            (2, "fast", "deadline: fast"),
            (4, "lots", "  a: {limit: lots}"),
            (8, "few", "                     few"),
            (10, "none", "    burst: none"),
            (12, "few", "                   few"),
            (13, "no", "             no"),
            (14, "unknown", "unknown"),
        ] {
            assert_eq!(line(number, wrong).as_deref(), Some(expected), "{number}");
        }
    }

    #[test]
    fn what_a_terminal_could_obey_is_replaced_and_a_long_line_left_out() {
        let place = Location { line: 1, column: 1, width: 1 };
        let shown = excerpt("deadline: \u{1b}[2J", place, |_| true);
        assert_eq!(shown.as_deref(), Some("deadline: \u{fffd}[2J"));
        assert_eq!(excerpt(&"x".repeat(1_000), place, |_| true), None);
        assert_eq!(excerpt("", place, |_| true), None);
    }
}

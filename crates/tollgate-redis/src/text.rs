//! How states are kept on the server: as their text, a sliding log as a native list.
//!
//! The text is the one of every distributed store, `[tag,a,b,c,word,…]`, with states under other
//! quotas at its end: those no script reads, and the state is swapped instead. The list of a log
//! holds `tag,a,b,c;base`, then one element per entry, `time;sum` with the sum of all units up to
//! it, and a `;` at the end of one that has no units of its own and only keeps the time.

use std::fmt::Write as _;

use tollgate_core::{QuotaId, State, Words};

use crate::transport::Reply;

/// The tag of the algorithm whose states are lists.
const SLIDING_LOG: u64 = 6;

/// What a key holds, as a script names it: `n` for nothing, `s` and a text, `l` and the elements of
/// a list. `None` for what Tollgate never writes.
pub(crate) fn held(value: &Reply) -> Option<String> {
    match value {
        Reply::Nil => Some("n".to_owned()),
        Reply::Text(text) => Some(format!("s{}", core::str::from_utf8(text).ok()?)),
        Reply::List(elements) => Some(format!("l{}", joined(elements)?)),
        Reply::Integer(_) | Reply::Error(_) => None,
    }
}

/// The text of the state that a key holds. `None` for what Tollgate never writes.
pub(crate) fn state_text(value: &Reply) -> Option<String> {
    match value {
        Reply::Text(text) => String::from_utf8(text.clone()).ok(),
        Reply::List(elements) => log_text(&joined(elements)?),
        Reply::Nil | Reply::Integer(_) | Reply::Error(_) => None,
    }
}

fn joined(elements: &[Reply]) -> Option<String> {
    let mut all = String::new();
    for element in elements {
        let Reply::Text(text) = element else { return None };
        if !all.is_empty() {
            all.push(' ');
        }
        all.push_str(core::str::from_utf8(text).ok()?);
    }
    Some(all)
}

/// The state in the elements of a list.
fn log_text(elements: &str) -> Option<String> {
    let mut elements = elements.split(' ');
    let (shape, base) = elements.next()?.split_once(';')?;
    let mut sum: u64 = base.parse().ok()?;
    let mut text = format!("[{shape}");
    for element in elements {
        let (time, rest) = element.split_once(';')?;
        let up_to: u64 = rest.trim_end_matches(';').parse().ok()?;
        write!(text, ",{time},{}", up_to.checked_sub(sum)?).ok()?;
        sum = up_to;
    }
    text.push(']');
    Some(text)
}

/// What a key shall hold for a text of the adapter: a state, or a record.
pub(crate) fn to_hold(text: &str) -> String {
    if text == "[]" {
        return "n".to_owned();
    }
    match State::from_text(text) {
        Ok(state) if is_list(&state) => log_elements(state.quota_id, &state.words),
        _ => format!("s{text}"),
    }
}

/// A log under several quotas is a text: no script changes it.
fn is_list(state: &State) -> bool {
    state.quota_id.tag() == SLIDING_LOG && !state.words.is_empty() && state.others.is_empty()
}

fn log_elements(quota_id: QuotaId, words: &Words) -> String {
    let [tag, a, b, c] = quota_id.0;
    let mut text = format!("l{tag},{a},{b},{c};0");
    let mut sum: u64 = 0;
    for [time, units] in words.as_chunks::<2>().0 {
        sum = sum.saturating_add(*units);
        let mark = if *units == 0 { ";" } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, " {time};{sum}{mark}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_reads_back_as_it_was_written() {
        for text in ["[6,60,0,5,100,2,130,1]", "[6,60,0,5,100,2,130,0]", "[6,60,0,5,7,4294967295]"]
        {
            let held = to_hold(text);
            let elements: Vec<Reply> = held
                .strip_prefix('l')
                .unwrap()
                .split(' ')
                .map(|element| Reply::Text(element.as_bytes().to_vec()))
                .collect();
            let list = Reply::List(elements);
            assert_eq!(state_text(&list).as_deref(), Some(text));
            assert_eq!(super::held(&list), Some(held));
        }
    }

    #[test]
    fn other_states_and_records_are_texts() {
        assert_eq!(to_hold("[6,60,0,5,100,2,[1,2,3,4,5,6]]"), "s[6,60,0,5,100,2,[1,2,3,4,5,6]]");
        assert_eq!(to_hold("[1,2,3,4,5,6]"), "s[1,2,3,4,5,6]");
        assert_eq!(to_hold("[]\n[\"id\"]"), "s[]\n[\"id\"]");
        assert_eq!(to_hold("[]"), "n");
    }

    #[test]
    fn lists_of_others_are_not_read() {
        let list = |texts: &[&str]| {
            Reply::List(texts.iter().map(|text| Reply::Text(text.as_bytes().to_vec())).collect())
        };
        for odd in [&["x"][..], &["6,1,0,1;0", "x"], &["6,1,0,1;5", "3;4"], &["6,1,0,1;0", "3;-4"]]
        {
            assert_eq!(state_text(&list(odd)), None, "{odd:?}");
        }
    }
}

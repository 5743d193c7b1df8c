//! The algorithms of a configuration. Each declares its fields itself ([`Kind::fields`]); here is
//! what the parser and the documentation make of them.

use tollgate_core::algorithm::{Kind, OptionKind, OptionSpec, QuotaFields};

use super::values::{one_of, whole};

/// The algorithm of a limit that names none.
pub const DEFAULT_ALGORITHM: Kind = Kind::Gcra;

/// The table of algorithms for the documentation, in Markdown.
#[must_use]
pub fn algorithms_table() -> String {
    let mut table = String::from("| algorithm | rate | optional field |\n|---|---|---|\n");
    for kind in Kind::ALL {
        let QuotaFields { rate, option, .. } = kind.fields();
        let option = option.map(|OptionSpec { name, kind, meaning, .. }| match kind {
            OptionKind::Whole(_) => format!("`{name}`: {meaning}"),
            OptionKind::Word(words) => format!("`{name}`: {meaning}: `{}`", words.join("` or `")),
        });
        let (name, option) = (kind.name(), option.unwrap_or_default());
        table.push_str(&format!("| `{name}` | `{rate}` | {option} |\n"));
    }
    table
}

/// The value of an optional field.
///
/// # Errors
/// What is wrong.
pub(super) fn option_value(option: &OptionSpec, text: &str) -> Result<u64, String> {
    match option.kind {
        OptionKind::Whole(_) => whole(text),
        OptionKind::Word(words) => {
            let words: Vec<(&str, u64)> = words.iter().copied().zip(0..).collect();
            one_of(text, &words)
        }
    }
}

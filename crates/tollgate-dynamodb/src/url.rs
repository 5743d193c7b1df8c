//! Parses the URL of a table: `dynamodb://table?region=…&endpoint=…&profile=…`.

use tollgate_core::store::parameters::filled;
use tollgate_core::{Error, Result};

const SCHEME: &str = "dynamodb://";
const ACCEPTED: &str = "accepted: dynamodb://table?region=…&endpoint=…&profile=…";
/// The lengths of table names that DynamoDB accepts.
const TABLE_LENGTHS: core::ops::RangeInclusive<usize> = 3..=255;

/// A parsed URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) table: String,
    pub(crate) region: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) profile: Option<String>,
}

/// The table of a URL, and its parameters.
///
/// # Errors
/// `config_invalid` naming `url` or `table`.
pub(crate) fn parse(url: &str) -> Result<(String, &str)> {
    let rest = url.strip_prefix(SCHEME).ok_or_else(|| Error::config("url", ACCEPTED))?;
    let (table, query) = rest.split_once('?').unwrap_or((rest, ""));
    // Some programs append a slash to every host.
    let table = table.strip_suffix('/').unwrap_or(table);
    Ok((checked_table(table)?, query))
}

fn checked_table(table: &str) -> Result<String> {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !TABLE_LENGTHS.contains(&table.len()) || !table.chars().all(is_accepted) {
        let accepted = "is not accepted; accepted: 3 to 255 of A-Z, a-z, 0-9, `_`, `-` and `.`";
        return Err(Error::config("table", accepted));
    }
    Ok(table.to_owned())
}

/// A region by its name.
pub(crate) fn region(text: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    filled(text).filter(|region| region.chars().all(is_name))
}

/// A server without credentials, query and fragment.
pub(crate) fn endpoint(text: &str) -> Option<String> {
    let host = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme))?;
    let is_clean = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
    (!host.is_empty() && host.chars().all(is_clean)).then(|| text.to_owned())
}

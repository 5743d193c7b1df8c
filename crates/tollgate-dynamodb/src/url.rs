//! Parses the URL of a table: `dynamodb://table?region=…&endpoint=…&profile=…`.

use tollgate_core::text::percent_decoded;
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

/// Parses a URL.
///
/// # Errors
/// `config_invalid` naming `url` or the part.
pub(crate) fn parse(url: &str) -> Result<Address> {
    let rest = url.strip_prefix(SCHEME).ok_or_else(|| Error::config("url", ACCEPTED))?;
    let (table, query) = rest.split_once('?').unwrap_or((rest, ""));
    // Some programs append a slash to every host.
    let table = table.strip_suffix('/').unwrap_or(table);
    let mut address = Address { table: checked_table(table)?, ..Address::default() };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (field, slot) = match name {
            "region" => ("region", &mut address.region),
            "endpoint" => ("endpoint", &mut address.endpoint),
            "profile" => ("profile", &mut address.profile),
            _ => {
                return Err(Error::config("url", format!("has an unknown parameter; {ACCEPTED}")));
            }
        };
        let value = decoded(field, value)?;
        if value.is_empty() || slot.is_some() {
            return Err(Error::config(field, "is empty or given twice"));
        }
        *slot = Some(value);
    }
    address.region.as_deref().map_or(Ok(()), check_region)?;
    address.endpoint.as_deref().map_or(Ok(()), check_endpoint)?;
    Ok(address)
}

fn checked_table(table: &str) -> Result<String> {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !TABLE_LENGTHS.contains(&table.len()) || !table.chars().all(is_accepted) {
        let accepted = "is not accepted; accepted: 3 to 255 of A-Z, a-z, 0-9, `_`, `-` and `.`";
        return Err(Error::config("table", accepted));
    }
    Ok(table.to_owned())
}

fn check_region(region: &str) -> Result<()> {
    if region.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-') {
        return Ok(());
    }
    Err(Error::config("region", "is not accepted; accepted: a name such as eu-central-1"))
}

fn check_endpoint(endpoint: &str) -> Result<()> {
    let host = ["http://", "https://"].iter().find_map(|scheme| endpoint.strip_prefix(scheme));
    let is_clean = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
    match host {
        Some(host) if !host.is_empty() && host.chars().all(is_clean) => Ok(()),
        _ => Err(Error::config(
            "endpoint",
            "is not accepted; accepted: http://host:port or https://host:port",
        )),
    }
}

fn decoded(field: &'static str, text: &str) -> Result<String> {
    percent_decoded(text).ok_or_else(|| Error::config(field, "is not percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(url: &str) -> Option<String> {
        let error = parse(url).err()?;
        assert!(!error.message().contains("s3cret"), "{error}");
        error.field().map(str::to_owned)
    }

    #[test]
    fn urls_are_parsed() {
        let plain = parse("dynamodb://limits").unwrap();
        assert_eq!(plain, Address { table: "limits".to_owned(), ..Address::default() });
        let full = "dynamodb://a.b-c_1/?region=eu-central-1&endpoint=http%3A%2F%2Flocalhost:8000\
                    &profile=staging";
        let address = parse(full).unwrap();
        assert_eq!(address.table, "a.b-c_1");
        assert_eq!(address.region.as_deref(), Some("eu-central-1"));
        assert_eq!(address.endpoint.as_deref(), Some("http://localhost:8000"));
        assert_eq!(address.profile.as_deref(), Some("staging"));
        let bare = parse("dynamodb://limits?endpoint=https://db.example:1").unwrap();
        assert_eq!(bare.endpoint.as_deref(), Some("https://db.example:1"));
    }

    #[test]
    fn errors_name_the_part_and_never_contain_it() {
        for (url, named) in [
            ("dynamo://limits", "url"),
            ("limits", "url"),
            ("dynamodb://limits?secret=s3cret", "url"),
            ("dynamodb://", "table"),
            ("dynamodb://ab", "table"),
            ("dynamodb://user:s3cret@limits", "table"),
            ("dynamodb://a/b", "table"),
            ("dynamodb://limits?region=", "region"),
            ("dynamodb://limits?region", "region"),
            ("dynamodb://limits?region=EU west", "region"),
            ("dynamodb://limits?region=a&region=b", "region"),
            ("dynamodb://limits?endpoint=localhost:8000", "endpoint"),
            ("dynamodb://limits?endpoint=http://", "endpoint"),
            ("dynamodb://limits?endpoint=http://u:s3cret@h", "endpoint"),
            ("dynamodb://limits?endpoint=http%3", "endpoint"),
            ("dynamodb://limits?profile=%ff", "profile"),
        ] {
            assert_eq!(field(url).as_deref(), Some(named), "{url}");
        }
    }
}

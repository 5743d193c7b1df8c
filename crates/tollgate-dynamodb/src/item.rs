//! The attributes of an item.
//!
//! `key` is the partition key and the whole primary key. `state` is the text that the adapter
//! writes, the same bytes as on other stores. `version` changes with every write. `expires` is in
//! whole seconds of the epoch, for DynamoDB's time to live: no decision depends on it.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use tollgate_core::store::cas::{Entry, Swap, Version};
use tollgate_core::{Code, Error, Micros, Result};

pub(crate) const KEY: &str = "key";
pub(crate) const STATE: &str = "state";
pub(crate) const VERSION: &str = "version";
pub(crate) const EXPIRES: &str = "expires";

/// The longest partition key.
const KEY_MAX: usize = 2_048;
const MICROS_PER_SECOND: Micros = 1_000_000;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// The primary key of a name.
///
/// # Errors
/// `invalid_request` when it is too long.
pub(crate) fn key(name: &str) -> Result<AttributeValue> {
    if name.len() > KEY_MAX {
        let message = format!(
            "is too long for this store: with prefix, policy, escapes and request id it has {} \
             bytes; accepted: at most {KEY_MAX}",
            name.len()
        );
        return Err(Error::invalid("key", message).not_sent());
    }
    Ok(AttributeValue::S(name.to_owned()))
}

/// The item that a swap writes.
///
/// # Errors
/// As [`key`].
pub(crate) fn item_of(write: &Swap<'_>, version: &str) -> Result<Item> {
    let seconds = write.keep_until.div_ceil(MICROS_PER_SECOND);
    Ok(Item::from([
        (KEY.to_owned(), key(write.key)?),
        (STATE.to_owned(), AttributeValue::S(write.value.to_owned())),
        (VERSION.to_owned(), AttributeValue::S(version.to_owned())),
        (EXPIRES.to_owned(), AttributeValue::N(seconds.to_string())),
    ]))
}

/// The name of an item.
pub(crate) fn name_of(item: &Item) -> Option<&str> {
    item.get(KEY)?.as_s().ok().map(String::as_str)
}

/// The value of an item.
///
/// # Errors
/// `corrupt_state` when another program wrote it. It must not be taken for a fresh key.
pub(crate) fn entry_of(mut item: Item) -> Result<Entry> {
    let mut text = |name: &str| match item.remove(name) {
        Some(AttributeValue::S(text)) => Ok(text),
        _ => {
            let message =
                format!("an item has no string attribute `{name}`; another program wrote it");
            Err(Error::new(Code::CorruptState, message))
        }
    };
    let (text, version) = (text(STATE)?, text(VERSION)?);
    Ok(Entry { text, version: Version::Text(version.into()) })
}

/// The text of a version.
pub(crate) fn version_text(version: &Version) -> String {
    match version {
        Version::Text(text) => text.to_string(),
        Version::Number(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap<'a>(key: &'a str, keep_until: Micros) -> Swap<'a> {
        Swap { key, expect: None, value: "[1,2,3,4]", keep_until }
    }

    #[test]
    fn the_expiry_is_rounded_up_to_seconds() {
        let expires = |keep_until| {
            let item = item_of(&swap("k", keep_until), "v").unwrap();
            item.get(EXPIRES).unwrap().as_n().unwrap().clone()
        };
        assert_eq!(expires(1_000_000), "1");
        assert_eq!(expires(1_000_001), "2");
        assert_eq!(expires(Micros::MAX), "18446744073710");
    }

    #[test]
    fn an_item_survives_the_conversion() {
        let item = item_of(&swap("k", 0), "v1").unwrap();
        assert_eq!(name_of(&item), Some("k"));
        let entry = entry_of(item).unwrap();
        assert_eq!(entry.text, "[1,2,3,4]");
        assert_eq!(version_text(&entry.version), "v1");
    }

    #[test]
    fn foreign_items_are_corrupt_and_long_keys_are_refused() {
        let foreign = Item::from([(VERSION.to_owned(), AttributeValue::N("1".to_owned()))]);
        assert_eq!(entry_of(foreign).unwrap_err().code(), Code::CorruptState);
        assert!(key(&"x".repeat(KEY_MAX)).is_ok());
        let error = key(&"x".repeat(KEY_MAX + 1)).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::InvalidRequest, Some("key")));
    }
}

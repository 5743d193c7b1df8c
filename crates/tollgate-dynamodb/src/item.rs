//! What an item looks like: the key, the text of its value, its version, and when it may go.
//!
//! `key` is the partition key and the only part of the primary key. `state` is the text that the
//! adapter writes, the same bytes as on other stores. `version` changes with every write.
//! `expires` is a whole second of the epoch, for DynamoDB's own clean-up: nothing is decided by it.

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
/// `invalid_request` when DynamoDB could not hold it.
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

/// The name that an item belongs to.
pub(crate) fn name_of(item: &Item) -> Option<&str> {
    item.get(KEY)?.as_s().ok().map(String::as_str)
}

/// The value of an item, as the adapter reads it.
///
/// # Errors
/// `corrupt_state` when somebody else wrote it: nothing may be taken for fresh.
pub(crate) fn entry_of(mut item: Item) -> Result<Entry> {
    let mut text = |name: &str| match item.remove(name) {
        Some(AttributeValue::S(text)) => Ok(text),
        _ => {
            let message = format!("an item has no text in `{name}`; something else wrote it");
            Err(Error::new(Code::CorruptState, message))
        }
    };
    let (text, version) = (text(STATE)?, text(VERSION)?);
    Ok(Entry { text, version: Version::Text(version.into()) })
}

/// The text of a version of this store.
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
    fn an_item_expires_in_the_second_after_it_is_no_longer_needed() {
        let expires = |keep_until| {
            let item = item_of(&swap("k", keep_until), "v").unwrap();
            item.get(EXPIRES).unwrap().as_n().unwrap().clone()
        };
        assert_eq!(expires(1_000_000), "1");
        assert_eq!(expires(1_000_001), "2");
        assert_eq!(expires(Micros::MAX), "18446744073710");
    }

    #[test]
    fn an_item_is_read_as_it_was_written() {
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

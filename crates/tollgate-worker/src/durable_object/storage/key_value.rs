//! The key-value storage of an object. Every class of objects has it.
//!
//! Writes that are made without waiting in between are one atomic write, of any number of calls. A
//! value is the instant until which it is kept, a space, and the text.

use core::cell::RefCell;
use std::collections::BinaryHeap;

use tollgate_core::store::record::is_of_settlement;
use tollgate_core::{Micros, Result};
use worker::js_sys::{Array, Map, Object, Promise, Reflect};
use worker::wasm_bindgen::JsValue;
use worker::wasm_bindgen_futures::JsFuture;
use worker::{ListOptions, Storage};

use super::{PAGE, RECORDS, Row, Swept, stored_name};
use crate::error::{corrupt, unavailable};

/// The most keys of one call.
const KEYS_MAX: usize = 128;
/// The longest name; the storage accepts 2,048 bytes.
const NAME_MAX_BYTES: usize = 2_000;
const WHAT: &str = "the storage of the object failed";

/// What was found on a page whose expired values were deleted.
struct Page {
    /// Whether a value is left on it.
    is_left: bool,
    /// Where the next page begins, if there may be one.
    next: Option<String>,
}

/// The key-value storage.
#[derive(Debug)]
pub(crate) struct KeyValue {
    storage: Storage,
    /// Where the next page of a sweep begins.
    swept_to: RefCell<Option<String>>,
}

impl KeyValue {
    pub(crate) const fn new(storage: Storage) -> Self {
        Self { storage, swept_to: RefCell::new(None) }
    }

    pub(super) async fn read(&self, names: &[&str]) -> Result<Vec<Option<String>>> {
        let names: Vec<String> =
            names.iter().map(|name| stored_name(name, NAME_MAX_BYTES)).collect();
        let mut values = Vec::with_capacity(names.len());
        for page in names.chunks(KEYS_MAX) {
            let keys: Vec<&str> = page.iter().map(String::as_str).collect();
            let found = self.storage.get_multiple(keys).await;
            let found = found.map_err(|error| unavailable(WHAT, &error))?;
            for name in page {
                values.push(text_of(&found.get(&JsValue::from_str(name)))?);
            }
        }
        Ok(values)
    }

    pub(super) async fn write(&self, rows: &[Row<'_>]) -> Result<()> {
        // All calls are made before the first is awaited: that makes them one write.
        let mut calls = Vec::new();
        for page in rows.chunks(KEYS_MAX) {
            let values = Object::new();
            for row in page {
                let name = stored_name(row.name, NAME_MAX_BYTES);
                let value = format!("{} {}", row.keep_until, row.value);
                Reflect::set(&values, &name.into(), &value.into()).map_err(failed)?;
            }
            calls.push(self.storage.as_raw().put_multiple(values.into()).map_err(failed)?);
        }
        all(calls).await
    }

    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        let name = stored_name(name, NAME_MAX_BYTES);
        self.storage.delete(&name).await.map(drop).map_err(|error| unavailable(WHAT, &error))
    }

    pub(super) async fn count_records(&self) -> Result<usize> {
        let (mut count, mut start) = (0_usize, None);
        loop {
            let page = self.page(RECORDS, start.as_deref()).await?;
            count = count.saturating_add(page.len());
            match page.last() {
                Some((name, _)) if page.len() == PAGE => start = Some(after(name)),
                _ => return Ok(count),
            }
        }
    }

    /// Deletes all expired request ids.
    pub(super) async fn reclaim_records(&self, now: Micros) -> Result<()> {
        let mut start = None;
        loop {
            start = self.reclaim_page(RECORDS, start.as_deref(), now).await?.next;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    /// Deletes the oldest request ids whose names begin with a text, but those of settlements. How
    /// many it found.
    pub(super) async fn forget_records(
        &self,
        names_begin_with: &str,
        count: usize,
    ) -> Result<usize> {
        // The newest of those that are to go is on top.
        let mut oldest = BinaryHeap::new();
        let mut start = None;
        loop {
            let page = self.page(names_begin_with, start.as_deref()).await?;
            let next = page.last().filter(|_| page.len() == PAGE).map(|(name, _)| after(name));
            for (name, value) in page {
                if !is_of_settlement(&value) {
                    oldest.push((keep_until(&value), name));
                }
                if oldest.len() > count {
                    oldest.pop();
                }
            }
            if next.is_none() {
                break;
            }
            start = next;
        }
        let names: Vec<&str> = oldest.iter().map(|(_, name)| &**name).collect();
        self.delete_all(&names).await?;
        Ok(names.len())
    }

    /// Deletes the expired values of one page of all names. Pages go round.
    pub(super) async fn sweep(&self, now: Micros) -> Result<Swept> {
        let start = self.swept_to.take();
        let page = self.reclaim_page("", start.as_deref(), now).await?;
        let has_more = page.next.is_some();
        *self.swept_to.borrow_mut() = page.next;
        Ok(Swept { has_values: page.is_left || start.is_some() || has_more, has_more })
    }

    /// Deletes the expired values of one page of the names with a prefix.
    async fn reclaim_page(&self, prefix: &str, start: Option<&str>, now: Micros) -> Result<Page> {
        let page = self.page(prefix, start).await?;
        let is_expired = |value: &str| keep_until(value).is_none_or(|until| until <= now);
        let expired: Vec<&str> =
            page.iter().filter(|(_, value)| is_expired(value)).map(|(name, _)| &**name).collect();
        self.delete_all(&expired).await?;
        let next = page.last().filter(|_| page.len() == PAGE).map(|(name, _)| after(name));
        Ok(Page { is_left: expired.len() < page.len(), next })
    }

    async fn delete_all(&self, names: &[&str]) -> Result<()> {
        let mut calls = Vec::new();
        for names in names.chunks(KEYS_MAX) {
            let names = names.iter().map(|name| JsValue::from_str(name)).collect();
            calls.push(self.storage.as_raw().delete_multiple(names).map_err(failed)?);
        }
        all(calls).await
    }

    /// Names and values in the order of the names.
    async fn page(&self, prefix: &str, start: Option<&str>) -> Result<Vec<(String, String)>> {
        let mut options = ListOptions::new().prefix(prefix).limit(PAGE);
        if let Some(start) = start {
            options = options.start(start);
        }
        let found = self.storage.list_with_options(options).await;
        Ok(pairs_of(&found.map_err(|error| unavailable(WHAT, &error))?))
    }
}

/// The first name after a name.
fn after(name: &str) -> String {
    format!("{name}\0")
}

fn pairs_of(map: &Map) -> Vec<(String, String)> {
    let entries = map.entries().into_iter().flatten();
    let pair = |entry: JsValue| {
        let entry: Array = entry.into();
        // A value that is no text is foreign: it reads as one that has expired.
        Some((entry.get(0).as_string()?, entry.get(1).as_string().unwrap_or_default()))
    };
    entries.filter_map(pair).collect()
}

fn text_of(value: &JsValue) -> Result<Option<String>> {
    if value.is_undefined() {
        return Ok(None);
    }
    let text = value.as_string();
    let text = text.as_deref().and_then(|text| text.split_once(' ')).map(|(_, text)| text);
    text.map(|text| Some(text.to_owned())).ok_or_else(|| corrupt("a value of the object"))
}

fn keep_until(value: &str) -> Option<Micros> {
    value.split_once(' ')?.0.parse().ok()
}

async fn all(calls: Vec<Promise>) -> Result<()> {
    for call in calls {
        JsFuture::from(call).await.map_err(failed)?;
    }
    Ok(())
}

fn failed(error: JsValue) -> tollgate_core::Error {
    unavailable(WHAT, &worker::Error::from(error))
}

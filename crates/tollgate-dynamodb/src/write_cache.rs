//! A cache of the items that this process wrote, which saves reads.
//!
//! A cached item may be stale. That does no harm: the next write carries its version as a
//! condition. But a stale item costs a failed write, which is more expensive than a read. An item
//! is therefore served from the cache only while no other process writes the key. After another
//! process did, the key is read until a read finds the version of this process again. An item that
//! came back with a failed condition is as fresh as a read, and is used once.
//!
//! A process that writes without reading is faster than all others, which would lose every race:
//! the item that a failed condition returns is stale when their next write arrives. So the cached
//! item is not used after a number of writes in a row. The read gives the others the time of one
//! round trip.
//!
//! The cache has two generations. When the young one is full, it replaces the old one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::store::cas::{Entry, Version};

/// Longer texts are not cached: their cost is the write, not the read.
const TEXT_MAX: usize = 2_048;
/// The largest number of writes in a row without a read.
const WRITES_MAX: u8 = 8;

/// The cached knowledge of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// Written by this process over a version of its own, and how many writes ago it was read.
    Own(Entry, u8),
    /// The version written by this process over that of another process. A read may find it again.
    Shared(Version),
    /// Returned with a failed condition.
    Returned(Entry),
    /// Has to be read: a condition failed and the stored item was not returned, is too long for the
    /// cache, or would be stale.
    Unknown,
}

impl Cached {
    /// The entry that replaces a read.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Own(entry, writes) if *writes < WRITES_MAX => Some(entry),
            Self::Returned(entry) => Some(entry),
            Self::Own(..) | Self::Shared(_) | Self::Unknown => None,
        }
    }

    /// How many writes ago the key was read, if this process wrote `version` over its own.
    fn writes_since_read(&self, version: &Version) -> Option<u8> {
        match self {
            Self::Own(entry, writes) if entry.version == *version => Some(*writes),
            Self::Own(..) | Self::Shared(_) | Self::Returned(_) | Self::Unknown => None,
        }
    }

    /// The length of the cached text.
    fn text_len(&self) -> usize {
        match self {
            Self::Own(entry, _) | Self::Returned(entry) => entry.text.len(),
            Self::Shared(_) | Self::Unknown => 0,
        }
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct WriteCache {
    /// The largest number of keys in one generation.
    capacity: usize,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Cached>,
    old: HashMap<String, Cached>,
}

impl WriteCache {
    pub(crate) fn new(keys: usize) -> Self {
        Self { capacity: keys.div_ceil(2), generations: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Cached> {
        let generations = self.lock();
        generations.young.get(key).or_else(|| generations.old.get(key)).cloned()
    }

    /// Removes a key from the cache, until the outcome of its write is known.
    pub(crate) fn take(&self, key: &str) -> Option<Cached> {
        let mut generations = self.lock();
        let old = generations.old.remove(key);
        generations.young.remove(key).or(old)
    }

    pub(crate) fn put(&self, key: &str, cached: Cached) {
        if self.capacity == 0 {
            return;
        }
        let cached = if cached.text_len() > TEXT_MAX { Cached::Unknown } else { cached };
        let mut generations = self.lock();
        if generations.young.len() >= self.capacity {
            generations.old = core::mem::take(&mut generations.young);
        }
        generations.young.insert(key.to_owned(), cached);
    }

    /// Records the result of a read.
    pub(crate) fn record_read(&self, key: &str, found: Option<&Entry>) {
        match (self.take(key), found) {
            (Some(Cached::Shared(version)), Some(entry)) if version == entry.version => {
                self.put(key, Cached::Own(entry.clone(), 0));
            }
            (Some(Cached::Own(own, _)), Some(entry)) if own.version == entry.version => {
                self.put(key, Cached::Own(own, 0));
            }
            _ => {}
        }
    }

    /// Records an applied write over the version `expect`. `before` was cached before the write.
    pub(crate) fn record_write(
        &self,
        key: &str,
        before: Option<&Cached>,
        expect: Option<&Version>,
        entry: Entry,
    ) {
        let writes = match expect {
            Some(version) => before.and_then(|cached| cached.writes_since_read(version)),
            // No other process has written a key that did not exist.
            None => Some(0),
        };
        let cached = match writes {
            Some(writes) => Cached::Own(entry, writes.saturating_add(1)),
            None => Cached::Shared(entry.version),
        };
        self.put(key, cached);
    }

    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(version: &str) -> Entry {
        Entry { text: "[]".to_owned(), version: Version::Text(version.into()) }
    }

    fn write(cache: &WriteCache, expect: Option<&str>, version: &str) {
        let before = cache.take("k");
        let expect = expect.map(|text| Version::Text(text.into()));
        cache.record_write("k", before.as_ref(), expect.as_ref(), entry(version));
    }

    fn cached(cache: &WriteCache) -> Option<Entry> {
        cache.get("k").and_then(|cached| cached.entry().cloned())
    }

    #[test]
    fn a_key_that_only_this_process_writes_is_cached() {
        let cache = WriteCache::new(10);
        write(&cache, None, "1");
        assert_eq!(cached(&cache), Some(entry("1")));
        write(&cache, Some("1"), "2");
        assert_eq!(cached(&cache), Some(entry("2")));
    }

    #[test]
    fn a_key_is_read_after_a_number_of_writes() {
        let cache = WriteCache::new(10);
        write(&cache, None, "0");
        for number in 1..WRITES_MAX {
            assert!(cached(&cache).is_some());
            write(&cache, Some(&(number - 1).to_string()), &number.to_string());
        }
        assert_eq!(cached(&cache), None, "other processes never win a race");
        let last = (WRITES_MAX - 1).to_string();
        cache.record_read("k", Some(&entry(&last)));
        assert_eq!(cached(&cache), Some(entry(&last)));
    }

    #[test]
    fn a_key_that_another_process_writes_is_read_until_it_is_unchanged() {
        let cache = WriteCache::new(10);
        cache.record_read("k", Some(&entry("theirs")));
        write(&cache, Some("theirs"), "1");
        assert_eq!(cached(&cache), None, "the other process may write again");
        cache.record_read("k", Some(&entry("theirs again")));
        write(&cache, Some("theirs again"), "2");
        assert_eq!(cached(&cache), None);
        cache.record_read("k", Some(&entry("2")));
        assert_eq!(cached(&cache), Some(entry("2")));
        write(&cache, Some("2"), "3");
        assert_eq!(cached(&cache), Some(entry("3")));
    }

    #[test]
    fn an_item_returned_with_a_failed_condition_is_used_once() {
        let cache = WriteCache::new(10);
        cache.put("k", Cached::Returned(entry("theirs")));
        assert_eq!(cached(&cache), Some(entry("theirs")));
        write(&cache, Some("theirs"), "1");
        assert_eq!(cached(&cache), None);
    }

    #[test]
    fn the_cache_is_bounded_and_keeps_keys_in_use() {
        let cache = WriteCache::new(20);
        for number in 0..1_000 {
            cache.put(&format!("k{number}"), Cached::Own(entry("1"), 0));
            let hot = cache.take("hot").unwrap_or(Cached::Own(entry("hot"), 0));
            cache.put("hot", hot);
        }
        let generations = cache.lock();
        assert!(generations.young.len() + generations.old.len() <= 20);
        drop(generations);
        assert!(cache.get("hot").is_some() && cache.get("k0").is_none());
        let none = WriteCache::new(0);
        none.put("k", Cached::Own(entry("1"), 0));
        assert!(none.get("k").is_none());
    }

    #[test]
    fn long_texts_are_not_cached() {
        let cache = WriteCache::new(10);
        let text = "x".repeat(TEXT_MAX + 1);
        cache.put("k", Cached::Own(Entry { text, ..entry("1") }, 0));
        assert_eq!(cache.get("k"), Some(Cached::Unknown));
    }
}

//! What this process remembers of the keys it wrote, so that it need not read them.
//!
//! A remembered value is only ever a guess: the write that follows carries its version as a
//! condition. But a wrong guess costs a write, which is dearer than a read. So a key is guessed only
//! as long as nobody else writes it: after somebody did, it is read until a read finds this process's
//! own version again. A value that came back with a lost race is as new as a read, and is used once.
//!
//! Whoever writes without reading is always faster than the others, who would lose to it for ever: what
//! they are told is old when their next write arrives. So every so often it reads, which gives them the
//! time of one round trip to win.
//!
//! Bounded without a list of ages: two generations, the older of which goes when the younger is full.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_core::store::cas::{Entry, Version};

/// Longer texts are not kept: what they cost is the write, not the read.
const TEXT_MAX: usize = 2_048;
/// Writes in a row without a read.
const STREAK_MAX: u8 = 8;

/// What is known about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Written by this process, which also wrote it or looked at it the time before; and how many
    /// writes ago it was read.
    Own(Entry, u8),
    /// Written by this process over somebody else's version: only to be recognised by a read.
    Shared(Version),
    /// As it came back with a lost race.
    Given(Entry),
    /// To be read: a guess was wrong and what is right did not come back, is too long to be kept, or
    /// would be old already.
    Unclear,
}

impl Known {
    /// What may stand in for a read.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Own(entry, streak) if *streak < STREAK_MAX => Some(entry),
            Self::Given(entry) => Some(entry),
            Self::Own(..) | Self::Shared(_) | Self::Unclear => None,
        }
    }

    /// If this is what this process wrote last, and nobody else since as far as is known: how many
    /// writes ago it was read.
    fn streak(&self, version: &Version) -> Option<u8> {
        match self {
            Self::Own(entry, streak) if entry.version == *version => Some(*streak),
            Self::Own(..) | Self::Shared(_) | Self::Given(_) | Self::Unclear => None,
        }
    }

    /// The length of the text that is kept.
    fn text_len(&self) -> usize {
        match self {
            Self::Own(entry, _) | Self::Given(entry) => entry.text.len(),
            Self::Shared(_) | Self::Unclear => 0,
        }
    }
}

/// Keys and what is known about them.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Keys in one of the two generations.
    room: usize,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<String, Known>,
    old: HashMap<String, Known>,
}

impl Memory {
    pub(crate) fn new(keys: usize) -> Self {
        Self { room: keys.div_ceil(2), generations: Mutex::default() }
    }

    pub(crate) fn known(&self, key: &str) -> Option<Known> {
        let generations = self.lock();
        generations.young.get(key).or_else(|| generations.old.get(key)).cloned()
    }

    /// Forgets a key, until it is known what became of it.
    pub(crate) fn take(&self, key: &str) -> Option<Known> {
        let mut generations = self.lock();
        let old = generations.old.remove(key);
        generations.young.remove(key).or(old)
    }

    pub(crate) fn put(&self, key: &str, known: Known) {
        if self.room == 0 {
            return;
        }
        let known = if known.text_len() > TEXT_MAX { Known::Unclear } else { known };
        let mut generations = self.lock();
        if generations.young.len() >= self.room {
            generations.old = core::mem::take(&mut generations.young);
        }
        generations.young.insert(key.to_owned(), known);
    }

    /// A read found this: a key whose version is this process's own is its own again.
    pub(crate) fn saw(&self, key: &str, found: Option<&Entry>) {
        match (self.take(key), found) {
            (Some(Known::Shared(version)), Some(entry)) if version == entry.version => {
                self.put(key, Known::Own(entry.clone(), 0));
            }
            (Some(Known::Own(known, _)), Some(entry)) if known.version == entry.version => {
                self.put(key, Known::Own(known, 0));
            }
            _ => {}
        }
    }

    /// A write over `expect` was applied, when `before` was known.
    pub(crate) fn wrote(
        &self,
        key: &str,
        before: Option<&Known>,
        expect: Option<&Version>,
        entry: Entry,
    ) {
        let streak = match expect {
            Some(version) => before.and_then(|known| known.streak(version)),
            // Nobody else has written a key that did not exist.
            None => Some(0),
        };
        let known = match streak {
            Some(streak) => Known::Own(entry, streak.saturating_add(1)),
            None => Known::Shared(entry.version),
        };
        self.put(key, known);
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

    fn write(memory: &Memory, expect: Option<&str>, version: &str) {
        let before = memory.take("k");
        let expect = expect.map(|text| Version::Text(text.into()));
        memory.wrote("k", before.as_ref(), expect.as_ref(), entry(version));
    }

    fn recalled(memory: &Memory) -> Option<Entry> {
        memory.known("k").and_then(|known| known.entry().cloned())
    }

    #[test]
    fn a_key_that_this_process_made_is_remembered_from_write_to_write() {
        let memory = Memory::new(10);
        write(&memory, None, "1");
        assert_eq!(recalled(&memory), Some(entry("1")));
        write(&memory, Some("1"), "2");
        assert_eq!(recalled(&memory), Some(entry("2")));
    }

    #[test]
    fn even_an_own_key_is_read_every_so_often() {
        let memory = Memory::new(10);
        write(&memory, None, "0");
        for number in 1..STREAK_MAX {
            assert!(recalled(&memory).is_some());
            write(&memory, Some(&(number - 1).to_string()), &number.to_string());
        }
        assert_eq!(recalled(&memory), None, "the others never get their turn");
        let last = (STREAK_MAX - 1).to_string();
        memory.saw("k", Some(&entry(&last)));
        assert_eq!(recalled(&memory), Some(entry(&last)));
    }

    #[test]
    fn a_key_that_others_write_is_read_until_it_is_found_unchanged() {
        let memory = Memory::new(10);
        memory.saw("k", Some(&entry("theirs")));
        write(&memory, Some("theirs"), "1");
        assert_eq!(recalled(&memory), None, "somebody else may write again");
        memory.saw("k", Some(&entry("theirs again")));
        write(&memory, Some("theirs again"), "2");
        assert_eq!(recalled(&memory), None);
        memory.saw("k", Some(&entry("2")));
        assert_eq!(recalled(&memory), Some(entry("2")));
        write(&memory, Some("2"), "3");
        assert_eq!(recalled(&memory), Some(entry("3")));
    }

    #[test]
    fn what_came_back_with_a_lost_race_is_used_once() {
        let memory = Memory::new(10);
        memory.put("k", Known::Given(entry("theirs")));
        assert_eq!(recalled(&memory), Some(entry("theirs")));
        write(&memory, Some("theirs"), "1");
        assert_eq!(recalled(&memory), None);
    }

    #[test]
    fn memory_is_bounded_and_keeps_what_is_used() {
        let memory = Memory::new(20);
        for number in 0..1_000 {
            memory.put(&format!("k{number}"), Known::Own(entry("1"), 0));
            let hot = memory.take("hot").unwrap_or(Known::Own(entry("hot"), 0));
            memory.put("hot", hot);
        }
        let generations = memory.lock();
        assert!(generations.young.len() + generations.old.len() <= 20);
        drop(generations);
        assert!(memory.known("hot").is_some() && memory.known("k0").is_none());
        let none = Memory::new(0);
        none.put("k", Known::Own(entry("1"), 0));
        assert!(none.known("k").is_none());
    }

    #[test]
    fn long_texts_are_not_kept() {
        let memory = Memory::new(10);
        let text = "x".repeat(TEXT_MAX + 1);
        memory.put("k", Known::Own(Entry { text, ..entry("1") }, 0));
        assert_eq!(memory.known("k"), Some(Known::Unclear));
    }
}

//! Which keys callers charge.
//!
//! A caller writes its next key itself, so the key is in the cache, as after parsing a request. A
//! list of the keys of all callers would miss the cache on every call, and the ceiling, whose
//! commands are encoded beforehand, would not pay for that.

use super::KEYS;

/// The length of a key: five letters and five digits.
const LENGTH: usize = 10;
/// Where a key's number stands, and what each digit counts.
const PLACES: [(usize, usize); 5] = [(5, 10_000), (6, 1_000), (7, 100), (8, 10), (9, 1)];

/// The keys of one caller: every n-th, from its own number on.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    key: [u8; LENGTH],
    next: usize,
    stride: usize,
}

impl Walk {
    /// One for each of `count` callers; no two share a key.
    pub(super) fn apart(count: usize) -> Vec<Self> {
        (0..count).map(|first| Self::from(first, count)).collect()
    }

    /// One for each of `count` callers, all of them on one key.
    pub(super) fn together(count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::from(0, 0)).collect()
    }

    const fn from(first: usize, stride: usize) -> Self {
        Self { key: *b"user-00000", next: first, stride }
    }

    /// The next key.
    pub(super) fn step(&mut self) -> &str {
        for (place, unit) in PLACES {
            self.key[place] = b'0' + (self.next / unit % 10) as u8;
        }
        self.next += self.stride;
        if self.next >= KEYS {
            self.next -= KEYS;
        }
        // Letters and digits.
        std::str::from_utf8(&self.key).unwrap_or_default()
    }
}

/// All keys, in order.
pub(super) fn all() -> impl Iterator<Item = String> {
    let mut walk = Walk::from(0, 1);
    (0..KEYS).map(move |_| walk.step().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn callers_charge_all_keys_and_share_none() {
        let every: HashSet<String> = all().collect();
        assert_eq!(every.len(), KEYS);
        assert!(every.contains("user-00000") && every.contains("user-20479"));
        let mut seen = HashSet::new();
        for mut walk in Walk::apart(256) {
            let own: HashSet<String> = (0..KEYS).map(|_| walk.step().to_owned()).collect();
            assert_eq!(own.len(), KEYS / 256);
            assert!(own.iter().all(|key| every.contains(key) && seen.insert(key.clone())));
        }
    }

    #[test]
    fn callers_together_charge_one_key() {
        let keys = Walk::together(3)
            .into_iter()
            .flat_map(|mut walk| [(); 3].map(|()| walk.step().to_owned()));
        assert_eq!(keys.collect::<HashSet<_>>().len(), 1);
    }
}

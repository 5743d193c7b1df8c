//! The contract of a backend of [`Cas`](tollgate_core::store::Cas). The other clauses cannot see
//! it: callers of one adapter take turns, and only those of several processes race.

use tollgate_core::Micros;
use tollgate_core::store::cas::{Swap, Version, Versioned};

use super::suite::fresh_name;

/// After every run of this clause.
const KEEP_UNTIL: Micros = 1 << 52;

/// A swap writes all or nothing, and only over the versions that it expects; every write has a
/// version of its own. An author of a backend calls it in a test.
pub async fn swaps_compare<V: Versioned>(backend: &V) {
    let name = fresh_name();
    let [a, b] = &["a", "b"].map(|key| format!("{name}:{key}"));
    assert!(write(backend, a, None, "1").await, "a key that does not exist was not written");
    assert!(!write(backend, a, None, "2").await, "a key that exists was written as a new one");
    let one = read(backend, a, "1").await;
    assert!(write(backend, a, Some(&one), "2").await, "the newest version was refused");
    assert!(!write(backend, a, Some(&one), "3").await, "a version that was replaced was accepted");
    let two = read(backend, a, "2").await;
    assert_ne!(one, two, "two writes share a version");
    if backend.capability().keys_per_swap > 1 {
        // The one that differs comes last, then first: the other must not be written.
        let [stale, fresh] =
            [(a, Some(&one)), (b, None)].map(|(key, expect)| swap(key, expect, "4"));
        for both in [[fresh, stale], [stale, fresh]] {
            let swapped = backend.swap(&both).await.expect("a swap is answered");
            assert!(!swapped, "a swap of several keys was made over a version that was replaced");
            let found = backend.read(&[a, b]).await.expect("a read is answered").entries;
            let texts: Vec<Option<&str>> =
                found.iter().map(|entry| entry.as_ref().map(|entry| &*entry.text)).collect();
            assert_eq!(texts, [Some("2"), None], "a swap that was refused wrote");
        }
    }
    assert!(write(backend, a, Some(&two), "5").await, "the newest version was refused");
}

fn swap<'a>(key: &'a str, expect: Option<&'a Version>, value: &'a str) -> Swap<'a> {
    Swap { key, expect, value, keep_until: KEEP_UNTIL }
}

async fn write<V: Versioned>(backend: &V, key: &str, expect: Option<&Version>, text: &str) -> bool {
    backend.swap(&[swap(key, expect, text)]).await.expect("a swap is answered")
}

/// The version of a key, which has this text.
async fn read<V: Versioned>(backend: &V, key: &str, text: &str) -> Version {
    let found = backend.read(&[key]).await.expect("a read is answered").entries;
    let entry = found.into_iter().next().flatten().expect("what was written is there");
    assert_eq!(entry.text, text, "another value than was written");
    entry.version
}

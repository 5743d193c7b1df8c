//! What a backend brings: reads with versions, and an all-or-nothing compare-and-swap.
//!
//! A backend is transport only. Values are text that it does not read, versions are its own and
//! opaque to the adapter, and all decisions are made in Rust by [`Cas`](super::Cas). So a store
//! over DynamoDB, Deno KV, D1 or SQLite is this trait and nothing else.

use core::future::Future;

use crate::error::Result;
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::store::CallLimit;
use crate::time::Micros;

/// What a backend can do. Read at every call: return a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionedCapability {
    /// How many keys one swap may write atomically; at least 1. One request id takes one more key
    /// when this is above 1.
    pub keys_per_swap: u32,
    /// Values survive a restart of this process.
    pub durable: bool,
    /// Every snapshot carries the backend's own clock.
    pub own_clock: bool,
    /// The largest value, in bytes of text; 0 for no bound of its own.
    pub max_state_bytes: u32,
    /// A sliding log may be of any length: usually it is not swapped whole.
    pub long_logs: bool,
    /// Independent admissions of a batch share swaps where they can. Not where a swap of several
    /// keys costs more than several swaps of one.
    pub joint_batches: bool,
}

impl VersionedCapability {
    /// A durable backend without a clock that swaps one key at a time, of any size.
    #[must_use]
    pub const fn single_key() -> Self {
        Self {
            keys_per_swap: 1,
            durable: true,
            own_clock: false,
            max_state_bytes: 0,
            long_logs: false,
            joint_batches: true,
        }
    }

    /// A durable backend without a clock that swaps up to `keys_per_swap` keys, of any size.
    #[must_use]
    pub const fn multi_key(keys_per_swap: u32) -> Self {
        Self { keys_per_swap, ..Self::single_key() }
    }

    /// The same backend, whose values last only as long as this process.
    #[must_use]
    pub const fn volatile(mut self) -> Self {
        self.durable = false;
        self
    }

    /// The same backend, with a clock in every snapshot.
    #[must_use]
    pub const fn with_own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// The same backend, with values of at most `bytes`.
    #[must_use]
    pub const fn with_max_state_bytes(mut self, bytes: u32) -> Self {
        self.max_state_bytes = bytes;
        self
    }

    /// The same backend, with sliding logs of any length.
    #[must_use]
    pub const fn with_long_logs(mut self) -> Self {
        self.long_logs = true;
        self
    }

    /// The same backend, where admissions of a batch share a swap only if they share a key.
    #[must_use]
    pub const fn without_joint_batches(mut self) -> Self {
        self.joint_batches = false;
        self
    }

    /// Whether one swap can write several keys.
    pub(super) const fn is_multi_key(self) -> bool {
        self.keys_per_swap > 1
    }
}

/// Which write a value came from, as the backend names it; the adapter only hands it back.
///
/// No two writes of one key may share a version, even with an expiry in between: a backend that
/// counts from 1 for each new row must give up on a swap sooner than the slack of the adapter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// A counter, as in a column of a table.
    Number(u64),
    /// An opaque text, as the versionstamps of Deno KV.
    Text(Box<str>),
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The text that was swapped in.
    pub text: String,
    /// Which write it came from.
    pub version: Version,
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The value of each key, in the order of the keys; `None` where there is none.
    pub entries: Vec<Option<Entry>>,
    /// The backend's clock at the read, if it has one.
    pub clock: Option<Micros>,
}

/// One write of a swap.
#[derive(Clone, Copy, Debug)]
pub struct Swap<'a> {
    /// The key to write.
    pub key: &'a str,
    /// The version it must still have; `None` when it must not exist.
    pub expect: Option<&'a Version>,
    /// The new value.
    pub value: &'a str,
    /// From this instant on the backend may delete the value to reclaim space. It need not: a value
    /// that is past it still counts as existing, for reads and for swaps alike, until it is
    /// deleted.
    pub keep_until: Micros,
}

/// A key-value backend with versions.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Mutex;
/// use tollgate_core::Result;
/// use tollgate_core::store::Cas;
/// use tollgate_core::store::cas::{
///     Entry, Snapshot, Swap, Version, Versioned, VersionedCapability,
/// };
///
/// /// Key to (version, value).
/// #[derive(Default)]
/// struct Table(Mutex<BTreeMap<String, (u64, String)>>);
///
/// impl Versioned for Table {
///     fn capability(&self) -> VersionedCapability {
///         VersionedCapability::multi_key(100).volatile()
///     }
///
///     async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
///         let rows = self.0.lock().unwrap();
///         let entries = keys.iter().map(|key| {
///             let (version, text) = rows.get(*key)?.clone();
///             let version = Version::Number(version);
///             Some(Entry { text, version })
///         });
///         let entries = entries.collect();
///         Ok(Snapshot { entries, clock: None })
///     }
///
///     async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
///         let mut rows = self.0.lock().unwrap();
///         let version = |key: &str| rows.get(key).map(|row| Version::Number(row.0));
///         if writes.iter().any(|write| version(write.key).as_ref() != write.expect) {
///             return Ok(false);
///         }
///         for write in writes {
///             let row = rows.entry(write.key.to_owned()).or_default();
///             *row = (row.0 + 1, write.value.to_owned());
///         }
///         Ok(true)
///     }
/// }
///
/// let store = Cas::new(Table::default());
/// ```
pub trait Versioned: MaybeSend + MaybeSync {
    /// What this backend can do.
    fn capability(&self) -> VersionedCapability;

    /// Reads the newest value of each key, strongly consistent. The keys are distinct, of any
    /// number, and need not be read at one instant: the swap finds out what changed since.
    fn read(&self, keys: &[&str]) -> impl Future<Output = Result<Snapshot>> + MaybeSend;

    /// Writes all or nothing. `false` when some version differed: then nothing was written.
    ///
    /// An error means that the outcome is unknown, unless it is marked as
    /// [`not_sent`](crate::Error::not_sent). The transport must not repeat a swap on its own: if
    /// the first one arrived, the second finds its version and answers `false`, and the adapter
    /// would charge again. Switch such retries of a client library off.
    fn swap(&self, writes: &[Swap<'_>]) -> impl Future<Output = Result<bool>> + MaybeSend;

    /// What the backend keeps of these keys, perhaps stale, in place of a read; `None` if a
    /// read is needed, which is the default.
    ///
    /// It is used only if the swap that follows writes every one of the keys, for then the swap
    /// itself proves that nothing was stale: it fails otherwise. Whatever writes less (a denial, a
    /// peek, a replayed request id) is decided by a read. So an entry that is guessed wrongly costs
    /// a lost race and never an answer.
    fn recall(&self, keys: &[&str]) -> Option<Snapshot> {
        let _ = keys;
        None
    }

    /// The bound on calls at once, if there is one. The adapter waits for a permit before a read,
    /// and keeps it until the swap after it is answered.
    fn call_limit(&self) -> Option<&CallLimit> {
        None
    }

    /// Releases connections.
    fn close(&self) -> impl Future<Output = ()> + MaybeSend {
        async {}
    }
}

/// A shared backend is a backend.
impl<V: Versioned> Versioned for std::sync::Arc<V> {
    fn capability(&self) -> VersionedCapability {
        (**self).capability()
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        (**self).read(keys).await
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        (**self).swap(writes).await
    }

    fn recall(&self, keys: &[&str]) -> Option<Snapshot> {
        (**self).recall(keys)
    }

    fn call_limit(&self) -> Option<&CallLimit> {
        (**self).call_limit()
    }

    async fn close(&self) {
        (**self).close().await;
    }
}

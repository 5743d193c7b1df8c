//! A flat, fixed table of cache lines, one key each.
//!
//! A key lives in one of [`WINDOW`] neighbouring lines that its fingerprint chooses or, where those
//! are taken, in another window that it also chooses. Reading and charging a key that is there
//! takes no lock of the table. Inserting, replacing and reclaiming happen under the mutex of a
//! shard, a run of lines that no window leaves. Lines are reserved as zeroed memory, which the
//! operating system hands out page by page when it is first touched, so a large bound costs nothing
//! until it is needed. A used line never becomes unused again: a search may stop at the first
//! unused line.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fingerprint::Id;
use super::line::{self, Line};
use super::shard::Shard;
use crate::error::{Error, Result};

/// How many lines a window has. A search ends at the first unused line, so only dense regions are
/// searched that far.
pub(super) const WINDOW: usize = 32;

const LINE_WORDS: usize = 8;
const LINE_BYTES: usize = 64;
const SHARDS_MAX: usize = 64;
/// Below this many homes another shard is not worth its extra window.
const SHARD_HOMES_MIN: usize = 1_024;
/// The largest bound on keys.
#[cfg(target_pointer_width = "64")]
const KEYS_MAX: usize = 1 << 32;
/// The largest bound on keys: the table must fit the addresses there are.
#[cfg(not(target_pointer_width = "64"))]
const KEYS_MAX: usize = 1 << 24;

#[derive(Debug)]
pub(super) struct Table {
    words: Box<[AtomicU64]>,
    /// The word at which the first cache line starts.
    first: usize,
    shards: Box<[Mutex<Shard>]>,
    last_shard: usize,
    /// Lines of a shard.
    stride: usize,
    /// Lines of a shard in which a window may start.
    homes: usize,
    used: AtomicUsize,
    max_keys: usize,
}

/// Where a key may live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) shard: usize,
    /// The first line of its first window, counted in the whole table.
    pub(super) first: usize,
    /// Chooses the second window.
    spread: u64,
    /// The first line of the first window, counted in the shard.
    pub(super) home: usize,
}

impl Table {
    pub(super) fn new(max_keys: usize) -> Result<Self> {
        if max_keys == 0 || max_keys > KEYS_MAX {
            return Err(Error::config(
                "max_keys",
                format!("{max_keys} is out of range; accepted: 1 to {KEYS_MAX}"),
            ));
        }
        let homes_wanted = max_keys + max_keys / 2;
        let shards = (homes_wanted / SHARD_HOMES_MIN).next_power_of_two().clamp(1, SHARDS_MAX);
        let homes = homes_wanted.div_ceil(shards);
        let stride = homes + WINDOW - 1;
        let lines = shards * stride;
        let words: Box<[AtomicU64]> = bytemuck::allocation::try_zeroed_slice_box(
            lines * LINE_WORDS + LINE_WORDS,
        )
        .map_err(|()| Error::config("max_keys", format!("no memory for {max_keys} keys")))?;
        let misaligned = words.as_ptr().addr() % LINE_BYTES;
        let first = (LINE_BYTES - misaligned) % LINE_BYTES / size_of::<AtomicU64>();
        let last_shard = shards - 1;
        let shards = (0..shards).map(|_| Mutex::new(Shard::new(homes))).collect();
        Ok(Self {
            words,
            first,
            shards,
            last_shard,
            stride,
            homes,
            used: AtomicUsize::new(0),
            max_keys,
        })
    }

    /// Where the key may live.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of shards and of homes")]
    pub(super) fn place(&self, id: Id) -> Place {
        let spread = id.spread();
        let shard = spread as usize & self.last_shard;
        let home = ((u128::from(spread) * self.homes as u128) >> 64) as usize;
        Place { shard, first: shard * self.stride + home, home, spread }
    }

    /// Every line in which the key may be, with its number.
    pub(super) fn lines_at(&self, place: Place) -> impl Iterator<Item = (usize, &Line)> {
        let other = (u128::from(place.spread.rotate_left(32)) * self.homes as u128) >> 64;
        let second = place.first - place.home + usize::try_from(other).unwrap_or(0);
        [place.first, second]
            .into_iter()
            .flat_map(|first| (first..).zip(self.window(first).unwrap_or_default()))
    }

    /// The lines of a window from `first` on.
    #[inline]
    pub(super) fn window(&self, first: usize) -> Option<&[Line]> {
        let from = self.first + first * LINE_WORDS;
        Some(self.words.get(from..from + WINDOW * LINE_WORDS)?.as_chunks().0)
    }

    #[inline]
    fn lines(&self) -> &[Line] {
        self.words.get(self.first..).unwrap_or_default().as_chunks().0
    }

    pub(super) fn line(&self, index: usize) -> Option<&Line> {
        self.lines().get(index)
    }

    /// The line that holds the key, counted in the whole table. Stable under the shard's mutex.
    pub(super) fn find(&self, id: Id, place: Place) -> Option<usize> {
        let mut used = self.lines_at(place).take_while(|(_, line)| !line::is_unused(line));
        used.find(|(_, line)| line::matches(line, id)).map(|(at, _)| at)
    }

    pub(super) fn lock(&self, shard: usize) -> Option<MutexGuard<'_, Shard>> {
        let shard = self.shards.get(shard)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The lines of one shard, and the number of the first.
    pub(super) fn lines_of(&self, shard: usize) -> impl Iterator<Item = (usize, &Line)> {
        self.lines().iter().enumerate().skip(shard * self.stride).take(self.stride)
    }

    /// Lines in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.used() >= self.max_keys
    }

    pub(super) fn count_used_line(&self) {
        self.used.fetch_add(1, Relaxed);
    }

    pub(super) fn max_keys(&self) -> usize {
        self.max_keys
    }
}

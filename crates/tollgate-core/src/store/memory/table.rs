//! A table of cache lines, one key each, that grows from small to its bound.
//!
//! The fingerprint of a key chooses a shard. A shard has one segment of lines at first; each growth
//! adds one that has as many homes as all before it. A key lives in one of [`WINDOW`] neighbouring
//! lines of the segment that its fingerprint chooses, from its home on, or, where those are taken,
//! in another window that it also chooses. Reading and charging a key that is there takes no lock
//! of the table. Inserting, replacing, reclaiming and growing happen under the mutex of the shard.
//! A used line never becomes unused again: a search may stop at the first unused line.
//!
//! # Growth
//! With n segments, n − 1 bits of the fingerprint choose one: the highest of these bits that is set
//! is its number, and the first segment has the keys for which none is. A growth reads one more
//! bit: the keys that have it set, half of them, move to the new segment, and the others stay where
//! they are. Older segments are never copied or freed, so no reader can hold a line that is gone.

use core::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::bounds::Bounds;
use super::budget::Share;
use super::fingerprint::Id;
use super::line::{self, Line};
use super::shard::Shard;
use crate::error::{Code, Error, Result};

/// How many lines a window has. A search ends at the first unused line, so only dense regions are
/// searched that far.
pub(super) const WINDOW: usize = 32;

const SHARDS_MAX: usize = 1 << SHARD_BITS_MAX;
const SHARD_BITS_MAX: u32 = 6;
/// Below this many lines another shard is not worth its mutex.
const SHARD_LINES_MIN: usize = 2_048;
/// The first segment has this many homes or up to twice as many, unless the bound allows fewer.
const FIRST_HOMES_MIN: usize = 64;
/// Lines at the end of a segment that are no homes, so that no window has to wrap around.
const MARGIN: usize = WINDOW - 1;
/// The largest bound on keys.
#[cfg(target_pointer_width = "64")]
pub(super) const KEYS_MAX: usize = 1 << 32;
/// The largest bound on keys: the table must fit the addresses there are.
#[cfg(not(target_pointer_width = "64"))]
pub(super) const KEYS_MAX: usize = 1 << 24;

thread_local! {
    /// The key that this thread found last, by half of its fingerprint, and where: a hot key is
    /// checked again and again.
    static LAST_FOUND: Cell<(u64, Position)> = const { Cell::new((0, Position::NOWHERE)) };
}

/// The lines of a shard that one growth added.
type Segment = OnceLock<Box<[Line]>>;

#[derive(Debug)]
pub(super) struct Table {
    /// The segments of all shards, those of the first shard first.
    segments: Box<[Segment]>,
    /// Per shard the bits of a fingerprint that choose a segment, as [`segment_of`] reads them. Not
    /// beside the mutexes: every check of a key reads them.
    chosen_by: Box<[AtomicUsize]>,
    shards: Box<[Mutex<Shard>]>,
    shape: TableSize,
    used: AtomicUsize,
    max_keys: usize,
    /// The bytes that lines and long states take.
    pub(super) share: Share,
}

/// The numbers of a table, which depend on its bound alone.
#[derive(Clone, Copy, Debug)]
struct TableSize {
    /// The number of shards less one; a power of two less one.
    last_shard: usize,
    /// How many segments a shard can have.
    segments: usize,
    /// Homes in the first segment.
    first: usize,
}

/// What of a fingerprint decides where its key may live, however much the table has grown.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHash {
    pub(super) shard: usize,
    spread: u64,
}

impl KeyHash {
    /// One of `count` equal parts of all hashes; even over them.
    #[inline]
    pub(super) fn among(self, count: usize) -> usize {
        scale(self.spread, count)
    }
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) segment: usize,
    line: usize,
}

impl Position {
    const NOWHERE: Self = Self { segment: usize::MAX, line: 0 };
}

impl TableSize {
    fn new(max_keys: usize) -> Self {
        // Seven sixteenths as many again: windows seldom fill then.
        let wanted = max_keys + max_keys / 16 * 7 + max_keys % 16 * 7 / 16;
        let shards = (wanted / SHARD_LINES_MIN).next_power_of_two().clamp(1, SHARDS_MAX);
        let of_shard = wanted.div_ceil(shards).max(WINDOW);
        let growths = (of_shard / FIRST_HOMES_MIN).checked_ilog2().unwrap_or(0);
        Self {
            last_shard: shards - 1,
            segments: growths as usize + 1,
            first: of_shard.div_ceil(1 << growths),
        }
    }

    /// The homes in the `segment`-th segment of a shard.
    const fn homes_of_segment(&self, segment: usize) -> usize {
        self.first << segment.saturating_sub(1)
    }

    /// The homes in the first segments of a shard.
    const fn homes_of(&self, segments: usize) -> usize {
        self.first << (segments - 1)
    }

    /// The lines of a shard that has as many as the bound allows.
    const fn lines_of_shard(&self) -> usize {
        self.homes_of(self.segments) + self.segments * MARGIN
    }
}

/// The segment that a fingerprint chooses: the highest of these bits that is set in it. The bits
/// are 1, 2 and so on, as many as there are segments beside the first.
#[inline]
const fn segment_of(spread: u64, chosen_by: usize) -> usize {
    ((spread >> (SHARD_BITS_MAX - 1)) as usize & chosen_by | 1).ilog2() as usize
}

/// The bits that choose one of this many segments.
const fn choosing(segments: usize) -> usize {
    (1 << segments) - 2
}

impl Table {
    pub(super) fn new(bounds: &Bounds, share: Share) -> Self {
        let max_keys = bounds.max_keys_or_default();
        let shape = TableSize::new(max_keys);
        let shards = shape.last_shard + 1;
        let shard = || Shard::new(shape.homes_of(shape.segments), bounds.when_full_or_default());
        Self {
            segments: (0..shards * shape.segments).map(|_| OnceLock::new()).collect(),
            chosen_by: (0..shards).map(|_| AtomicUsize::new(choosing(1))).collect(),
            shards: (0..shards).map(|_| Mutex::new(shard())).collect(),
            shape,
            used: AtomicUsize::new(0),
            max_keys,
            share,
        }
    }

    /// The bytes of a table with this bound once it is full, long states not counted.
    pub(super) fn bytes_for(max_keys: usize) -> usize {
        let shape = TableSize::new(max_keys);
        ((shape.last_shard + 1) * shape.lines_of_shard()).saturating_mul(size_of::<Line>())
    }

    /// Where the key may live.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "below the number of shards")]
    pub(super) fn hash_of(&self, id: Id) -> KeyHash {
        let spread = id.spread();
        KeyHash { shard: spread as usize & self.shape.last_shard, spread }
    }

    /// The line in which the key was, if this thread found it last; whatever is in it now.
    #[inline(always)]
    pub(super) fn last_found(&self, id: Id) -> Option<&Line> {
        let (last, position) = LAST_FOUND.get();
        if last == id.low { self.line(position) } else { None }
    }

    /// The line that seems to hold the key, after a charge found that another one does not.
    pub(super) fn find_again(&self, id: Id) -> Option<&Line> {
        let last = self.last_found(id).filter(|line| line::resembles(line, id));
        last.or_else(|| self.search(id))
    }

    /// The line that seems to hold the key. Without the shard's mutex, a key that is being moved
    /// may not be found.
    pub(super) fn search(&self, id: Id) -> Option<&Line> {
        let hash = self.hash_of(id);
        let segment = self.segment_at(hash.shard, hash.spread);
        let (home, window) = self.window(segment, hash.spread)?;
        for (number, line) in (home..).zip(window) {
            if line::resembles(line, id) {
                LAST_FOUND.set((id.low, Position { segment, line: number }));
                return Some(line);
            }
            if line::is_unused(line) {
                return None;
            }
        }
        self.search_everywhere(id, hash)
    }

    /// The segment of a shard that a fingerprint chooses, counted in the whole table.
    #[inline(always)]
    fn segment_at(&self, shard: usize, spread: u64) -> usize {
        shard * self.shape.segments + segment_of(spread, self.chosen_by(shard))
    }

    #[cold]
    fn search_everywhere(&self, id: Id, hash: KeyHash) -> Option<&Line> {
        let position = self.find(id, hash)?;
        LAST_FOUND.set((id.low, position));
        self.line(position)
    }

    /// Every line in which the key may be.
    pub(super) fn lines_at(&self, hash: KeyHash) -> impl Iterator<Item = (Position, &Line)> {
        let spreads = [hash.spread, hash.spread.rotate_left(32)];
        spreads.into_iter().flat_map(move |spread| {
            let segment = self.segment_at(hash.shard, spread);
            let window = self.window(segment, spread).into_iter();
            window.flat_map(move |(home, window)| {
                (home..).zip(window).map(move |(line, at)| (Position { segment, line }, at))
            })
        })
    }

    /// The window that a fingerprint chooses in a segment, and the number of its first line.
    #[inline(always)]
    fn window(&self, segment: usize, spread: u64) -> Option<(usize, &[Line; WINDOW])> {
        let lines = self.segment(segment)?;
        let home = scale(spread, lines.len() - MARGIN);
        Some((home, lines.get(home..home + WINDOW)?.first_chunk()?))
    }

    #[inline(always)]
    fn segment(&self, segment: usize) -> Option<&[Line]> {
        self.segments.get(segment)?.get().map(|lines| &**lines)
    }

    #[inline(always)]
    pub(super) fn line(&self, position: Position) -> Option<&Line> {
        self.segment(position.segment)?.get(position.line)
    }

    /// The position of the line that holds the key. Stable under the shard's mutex.
    pub(super) fn find(&self, id: Id, hash: KeyHash) -> Option<Position> {
        let mut used = self.lines_at(hash).take_while(|(_, line)| !line::is_unused(line));
        used.find(|(_, line)| line::matches(line, id)).map(|(position, _)| position)
    }

    pub(super) fn lock(&self, shard: usize) -> Option<MutexGuard<'_, Shard>> {
        Some(self.shards.get(shard)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The lines of one shard.
    pub(super) fn lines_of(&self, shard: usize) -> impl Iterator<Item = (Position, &Line)> {
        let segments = self.shape.segments;
        (shard * segments..(shard + 1) * segments).flat_map(|segment| {
            let lines = self.segment(segment).unwrap_or_default().iter().enumerate();
            lines.map(move |(line, at)| (Position { segment, line }, at))
        })
    }

    /// How many homes a shard has now.
    pub(super) fn homes_of(&self, shard: usize) -> usize {
        self.shape.homes_of(self.segments_of(shard))
    }

    /// Whether a shard has as many lines as the bound allows.
    pub(super) fn is_grown(&self, shard: usize) -> bool {
        self.segments_of(shard) >= self.shape.segments
    }

    /// How many segments a shard has now.
    fn segments_of(&self, shard: usize) -> usize {
        segment_of(u64::MAX, self.chosen_by(shard)) + 1
    }

    /// Reserves the first lines of a shard, if it has none yet. Its mutex must be held.
    pub(super) fn reserve(&self, shard: usize) -> Result<()> {
        self.reserve_segment(shard, 0).ok_or_else(|| {
            Error::new(Code::QueueFull, "no memory for another key; try again later")
        })
    }

    /// Doubles the lines of a shard; nothing moves yet. Its mutex must be held. `None` if it has as
    /// many as the bound allows, or if there is no memory.
    pub(super) fn double(&self, shard: usize) -> Option<()> {
        let segments = self.segments_of(shard);
        if segments >= self.shape.segments {
            return None;
        }
        self.reserve_segment(shard, segments)?;
        self.chosen_by.get(shard)?.store(choosing(segments + 1), Release);
        Some(())
    }

    fn reserve_segment(&self, shard: usize, segment: usize) -> Option<()> {
        let slot = self.segments.get(shard * self.shape.segments + segment)?;
        if slot.get().is_none() {
            let count = self.shape.homes_of_segment(segment) + MARGIN;
            let mut lines = Vec::new();
            lines.try_reserve_exact(count).ok()?;
            if !self.share.take(count * size_of::<Line>()) {
                return None;
            }
            lines.resize_with(count, Line::default);
            // It is empty: the mutex of the shard is held.
            let _is_new = slot.set(lines.into_boxed_slice());
        }
        Some(())
    }

    #[inline]
    fn chosen_by(&self, shard: usize) -> usize {
        self.chosen_by.get(shard).map_or(0, |bits| bits.load(Acquire))
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

    pub(super) fn count_vacated_line(&self) {
        self.used.fetch_sub(1, Relaxed);
    }

    pub(super) fn max_keys(&self) -> usize {
        self.max_keys
    }
}

/// Scales 64 even bits to a number below `count`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below `count`")]
fn scale(spread: u64, count: usize) -> usize {
    ((u128::from(spread) * count as u128) >> 64) as usize
}

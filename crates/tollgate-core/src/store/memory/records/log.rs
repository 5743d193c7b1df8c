//! Records one behind the other, in the order in which they were made, in chunks.
//!
//! A record is never moved. Its place is how much was written before it, in steps of four bytes and
//! modulo [`PLACES`]. What is removed leaves the log at its front, and a chunk is freed as a whole.

use std::collections::VecDeque;

/// The usual size of a chunk; a longer record has one of its own.
const CHUNK_BYTES: usize = 4_096;
/// Places are multiples of this many bytes.
pub(super) const STEP: usize = 4;
/// How many places there are. A log is never longer than half of them, so that an older place is
/// told from a newer one.
pub(super) const PLACES: u32 = 1 << 28;

#[derive(Debug, Default)]
pub(super) struct Log {
    chunks: VecDeque<Chunk>,
    /// The place of the first record that is left in the first chunk.
    front: u32,
    /// The place of the next record.
    end: u32,
}

#[derive(Debug)]
struct Chunk {
    first: u32,
    bytes: Vec<u8>,
}

impl Log {
    /// How many bytes it needs to take a record of this length; nothing if there is room. `None`
    /// when it is as long as it may be.
    pub(super) fn growth(&self, len: usize) -> Option<usize> {
        let room = self.chunks.back().map(|chunk| chunk.bytes.capacity() - chunk.bytes.len());
        if room.is_some_and(|room| len <= room) {
            return Some(0);
        }
        let bytes = len.max(CHUNK_BYTES);
        let steps = u32::try_from(bytes / STEP + 1).ok()?;
        (distance(self.front, self.end) < PLACES / 2 - steps.min(PLACES / 2)).then_some(bytes)
    }

    /// Makes room, as [`Log::growth`] says.
    pub(super) fn grow(&mut self, bytes: usize) {
        let bytes = Vec::with_capacity(bytes);
        self.chunks.push_back(Chunk { first: self.end, bytes });
    }

    /// Adds a record, where there is room; its place.
    pub(super) fn push(&mut self, record: &[u8]) -> u32 {
        let place = self.end;
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.bytes.extend_from_slice(record);
            self.end = after(place, record.len());
        }
        place
    }

    /// What was written from a place on, to the end of its chunk.
    pub(super) fn at(&self, place: u32) -> &[u8] {
        let offset = distance(self.front_of_chunks(), place);
        let is_before = |chunk: &Chunk| distance(self.front_of_chunks(), chunk.first) <= offset;
        let index = self.chunks.partition_point(is_before);
        let Some(chunk) = index.checked_sub(1).and_then(|index| self.chunks.get(index)) else {
            return &[];
        };
        let from = usize::try_from(distance(chunk.first, place)).unwrap_or(usize::MAX);
        chunk.bytes.get(from.saturating_mul(STEP)..).unwrap_or_default()
    }

    /// The place of the oldest record that was not popped.
    pub(super) fn front(&self) -> Option<u32> {
        (self.front != self.end).then_some(self.front)
    }

    /// The place behind a record of this length; none behind the newest.
    pub(super) fn next(&self, place: u32, len: usize) -> Option<u32> {
        let next = after(place, len);
        (next != self.end).then_some(next)
    }

    /// Whether a place holds a record that was not popped.
    pub(super) fn holds(&self, place: u32) -> bool {
        distance(self.front, place) < distance(self.front, self.end)
    }

    /// Removes the record of this length at the front; how many bytes that frees.
    pub(super) fn pop(&mut self, len: usize) -> usize {
        self.front = after(self.front, len);
        let mut freed = 0;
        while let Some(chunk) = self.chunks.front() {
            let steps = u32::try_from(chunk.bytes.len() / STEP).unwrap_or_default();
            let is_last = self.chunks.len() == 1;
            let is_left = distance(chunk.first, self.front) < steps;
            if is_left || (is_last && chunk.bytes.len() < chunk.bytes.capacity()) {
                break;
            }
            freed += chunk.bytes.capacity();
            self.chunks.pop_front();
        }
        freed
    }

    fn front_of_chunks(&self) -> u32 {
        self.chunks.front().map_or(self.end, |chunk| chunk.first)
    }
}

/// How far a place is behind another one.
fn distance(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from) % PLACES
}

fn after(place: u32, len: usize) -> u32 {
    place.wrapping_add(u32::try_from(len / STEP).unwrap_or_default()) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_where_they_were_written_until_they_are_popped() {
        let mut log = Log { end: PLACES - 3, front: PLACES - 3, ..Log::default() };
        let mut left = VecDeque::new();
        let (mut taken, mut freed) = (0, 0);
        for number in 0..10_000_usize {
            let len = STEP * (3 + number % 20 + if number % 97 == 0 { 2_000 } else { 0 });
            let record = vec![u8::try_from(number % 251).unwrap(); len];
            let growth = log.growth(len).unwrap();
            if growth > 0 {
                log.grow(growth);
                taken += growth;
            }
            left.push_back((log.push(&record), record));
            if left.len() > 300 {
                let (place, record) = left.pop_front().unwrap();
                assert_eq!(log.front(), Some(place));
                freed += log.pop(record.len());
                assert!(!log.holds(place));
            }
            for (place, record) in left.iter().step_by(37) {
                assert!(log.holds(*place));
                assert_eq!(&log.at(*place)[..record.len()], record);
            }
        }
        for (_, record) in left {
            freed += log.pop(record.len());
        }
        assert_eq!(log.front(), None);
        assert!(taken - freed <= 12_000, "at most the last chunk is left: {}", taken - freed);
    }
}

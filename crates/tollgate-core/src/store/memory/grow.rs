//! How a shard grows, and how it avoids that.
//!
//! A shard grows before it is crowded, and before a key would be evicted for lack of a line nearby.
//! Lines whose state expired minutes ago are vacated first; where that frees half of them, nothing
//! grows. So a table is as large as the keys that are in use within minutes need, and no part of
//! the work is done twice for the same insertions. Keys that expired just now keep their lines: a
//! key that comes back is checked without a lock.
//!
//! Moving a key is what replacing it would be, without anything forgotten: its line is held while
//! the state is written to its new line, and vacated then. A check that waits for the old line
//! finds no key there, goes to the general path, and waits for the mutex of the shard. So a state
//! is in one line at a time that can be charged, and no charge is lost.

use super::line::{self, Held};
use super::shard::Shard;
use super::table::{KeyHash, Table};
use crate::error::Result;
use crate::time::Micros;

/// How long a state has to be expired before its line is vacated.
const IDLE: Micros = 300_000_000;

impl Shard {
    /// Makes room for a key that has no line. No line of the shard may be held by the caller.
    ///
    /// # Errors
    /// `queue_full` if the shard has no lines at all, and there is no memory for them.
    pub(super) fn prepare(&mut self, table: &Table, hash: KeyHash, at: Micros) -> Result<()> {
        table.reserve(hash.shard)?;
        while !table.is_grown(hash.shard)
            && self.may_retry(at)
            && (self.is_crowded(table, hash.shard) || !has_room(table, hash))
        {
            let before = self.used;
            self.vacate_expired(table, hash.shard, at);
            let is_relieved = self.used <= before / 2 && self.used < before;
            if !is_relieved {
                if table.double(hash.shard).is_none() {
                    self.found_no_memory(at);
                    break;
                }
                self.rearrange(table, hash.shard, at);
            }
        }
        Ok(())
    }

    /// Whether there are three eighths as many keys as homes: with fewer, most keys are in their
    /// homes, and a check reads one line.
    fn is_crowded(&self, table: &Table, shard: usize) -> bool {
        8 * self.used >= 3 * table.homes_of(shard)
    }

    fn vacate_expired(&mut self, table: &Table, shard: usize, at: Micros) {
        for (_, line) in table.lines_of(shard).filter(|(_, line)| !line::is_unused(line)) {
            let held = Held::lock(line);
            let Some(content) = held.content().filter(|_| !held.is_free()) else {
                continue;
            };
            if content.fresh_at().saturating_add(IDLE) <= at {
                self.forget_until(content.fresh_at());
                self.release(table, &content);
                self.vacate(table, held);
            }
        }
    }

    /// Moves every key that a search would not find where it is.
    fn rearrange(&mut self, table: &Table, shard: usize, at: Micros) {
        for (position, line) in table.lines_of(shard).filter(|(_, line)| !line::is_unused(line)) {
            let held = Held::lock(line);
            let Some(content) = held.content().filter(|_| !held.is_free()) else {
                continue;
            };
            let (id, tag) = (held.id(), held.tag());
            let hash = table.hash_of(id);
            if table.find(id, hash) != Some(position) {
                self.make_room(table, hash, at).put(id, tag, &content);
                self.vacate(table, held);
            }
        }
    }

    fn vacate(&mut self, table: &Table, held: Held<'_>) {
        held.vacate();
        self.used -= 1;
        table.count_vacated_line();
    }
}

/// Whether a key of this hash would find a line without another key. Others may be held meanwhile,
/// so this only reads.
fn has_room(table: &Table, hash: KeyHash) -> bool {
    table.lines_at(hash).any(|(_, line)| line::is_unused(line) || line::is_vacant(line))
}

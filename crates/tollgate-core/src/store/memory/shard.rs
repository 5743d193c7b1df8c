//! What the mutex of a shard guards: which keys may be replaced, what is kept of the
//! replaced, and the words of long states. Growth is in `grow.rs`.
//!
//! # Forgetting
//! An expired line may be reused: its state means the same as none, as long as the clock does not
//! go back. So the shard keeps the latest instant it has forgotten, and decides about keys it
//! does not hold at that instant or later.
//!
//! # Eviction
//! When a window is full, or the table is, the key with the least debt goes: by quarters of its
//! ceiling, then the one that is fresh again soonest. Rather than a key that owes half or more, a
//! line beyond the bound is used, if the window has one. Where a throttled key must go, its debt
//! stays with the neighbourhood of its home: newcomers there, the key itself among them, start with
//! that debt until it has decayed. So a flood of new keys can never forgive a throttled key; the
//! price is that newcomers of a neighbourhood full of throttled keys are denied until then; a
//! policy may choose to forgive the key instead. A debt is kept as the instant at which it ends. A
//! newcomer under the same quota continues it; under another quota, an instant says nothing about
//! units, so nothing is granted until then.

use super::bounds::WhenFull;
use super::fill::Fill;
use super::fingerprint::Id;
use super::line::{Content, Held, is_unused};
use super::table::{KeyHash, Table};
use crate::algorithm::{Debt, Write};
use crate::rule::Rule;
use crate::time::Micros;

/// Lines that share a debt, when the shard has all its lines.
const NEIGHBOURS: usize = 16;
/// How many lines an insertion checks to free long states that expired.
const HAND_STEPS: usize = 2;

/// How often a shard looks for memory while there is none.
const RETRY_EVERY: Micros = 1_000_000;

#[derive(Debug)]
pub(super) struct Shard {
    when_full: WhenFull,
    /// Lines that hold a key.
    pub(super) used: usize,
    /// How many parts the hashes are divided into, each with its debt. It never changes: a key that
    /// lost its line must meet its debt after a growth, too.
    neighbourhoods: usize,
    /// The latest instant at which something forgotten was still kept.
    floor: Micros,
    /// Per neighbourhood, what newcomers inherit. Empty until the first inheritance.
    inherited_debts: Vec<InheritedDebt>,
    spilled: Vec<Box<[u64]>>,
    /// Places in `spilled` that are free.
    free: Vec<u64>,
    /// Where the search for expired long states goes on.
    hand: usize,
    /// Not before this instant is memory looked for again, after there was none.
    retry_at: Micros,
}

/// The debt of the throttled keys that a neighbourhood had to forget.
#[derive(Clone, Copy, Debug, Default)]
struct InheritedDebt {
    until: Micros,
    /// The quota of all of them; 0 if they had different ones.
    tag: u64,
}

/// How much is lost by replacing a line: the order is the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    Unused,
    Expired {
        fresh_at: Micros,
    },
    /// Less than half of the ceiling.
    Owing {
        fill: Fill,
        fresh_at: Micros,
    },
    /// An unused line when the table is full: the bound, which is there to keep searches short.
    Bound,
    /// Half of the ceiling or more, but some is left.
    OwingMuch {
        fill: Fill,
        fresh_at: Micros,
    },
    Throttled {
        fresh_at: Micros,
    },
}

impl Loss {
    fn of(content: &Content, at: Micros) -> Self {
        let fresh_at = content.fresh_at();
        if fresh_at <= at {
            return Self::Expired { fresh_at };
        }
        match content.fill(at) {
            Fill::THROTTLED => Self::Throttled { fresh_at },
            fill if fill >= Fill::HALF => Self::OwingMuch { fill, fresh_at },
            fill => Self::Owing { fill, fresh_at },
        }
    }
}

impl Shard {
    /// A shard that may grow to this many lines.
    pub(super) const fn new(lines: usize, when_full: WhenFull) -> Self {
        Self {
            when_full,
            used: 0,
            neighbourhoods: lines.div_ceil(NEIGHBOURS),
            floor: 0,
            inherited_debts: Vec::new(),
            spilled: Vec::new(),
            free: Vec::new(),
            hand: 0,
            retry_at: 0,
        }
    }

    pub(super) const fn floor(&self) -> Micros {
        self.floor
    }

    /// Until when newcomers of this hash inherit debt.
    pub(super) fn indebted_until(&self, hash: KeyHash) -> Micros {
        self.inherited_debt(hash).map_or(0, |debt| debt.until)
    }

    fn inherited_debt(&self, hash: KeyHash) -> Option<&InheritedDebt> {
        self.inherited_debts.get(hash.among(self.neighbourhoods))
    }

    /// The state that a newcomer of this hash starts with, if it inherits a debt.
    pub(super) fn inherited(&self, hash: KeyHash, rule: &Rule, at: Micros) -> Option<Write> {
        let debt = self.inherited_debt(hash).filter(|debt| debt.until > at)?;
        Some(if debt.tag == rule.quota_tag() {
            rule.indebted_until(debt.until, at)
        } else {
            rule.indebted(Debt { units: rule.ceiling(), seen: at })
        })
    }

    /// Whether to look for memory once more: that reads all lines, so after a failure it is done
    /// once in [`RETRY_EVERY`].
    pub(super) const fn may_retry(&self, at: Micros) -> bool {
        at >= self.retry_at
    }

    pub(super) const fn found_no_memory(&mut self, at: Micros) {
        self.retry_at = at.saturating_add(RETRY_EVERY);
    }

    /// Puts a new key into its window.
    pub(super) fn insert(
        &mut self,
        table: &Table,
        hash: KeyHash,
        at: Micros,
        (id, tag, content): (Id, u64, &Content),
    ) {
        self.free_some_expired(table, hash.shard, at);
        let held = self.make_room(table, hash, at);
        held.put(id, tag, content);
    }

    /// Takes the line of the window that loses least.
    pub(super) fn make_room<'t>(
        &mut self,
        table: &'t Table,
        hash: KeyHash,
        at: Micros,
    ) -> Held<'t> {
        loop {
            let Some((loss, held)) = Self::cheapest(table, hash, at) else {
                std::thread::yield_now();
                continue;
            };
            match held.content() {
                Some(content) if !held.is_free() => {
                    self.keep(table.hash_of(held.id()), held.tag(), loss, at);
                    self.release(table, &content);
                }
                _ => {
                    self.used += 1;
                    table.count_used_line();
                }
            }
            return held;
        }
    }

    /// The line that loses least, held. Lines that are held are passed over.
    fn cheapest(table: &Table, hash: KeyHash, at: Micros) -> Option<(Loss, Held<'_>)> {
        let mut best: Option<(Loss, Held<'_>)> = None;
        for (_, line) in table.lines_at(hash) {
            let unused = is_unused(line);
            let Some(held) = Held::try_lock(line) else {
                continue;
            };
            let loss = match held.content() {
                Some(content) if !held.is_free() => Loss::of(&content, at),
                _ if table.is_full() => Loss::Bound,
                _ => Loss::Unused,
            };
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, held));
            }
            let is_good =
                loss == Loss::Unused || matches!(loss, Loss::Expired { .. } if table.is_full());
            if unused || is_good {
                break;
            }
        }
        best
    }

    /// Keeps what must not be forgotten of a line that is replaced.
    fn keep(&mut self, hash: KeyHash, tag: u64, loss: Loss, at: Micros) {
        match loss {
            Loss::Expired { fresh_at } => self.forget_until(fresh_at),
            Loss::Throttled { fresh_at } if self.when_full == WhenFull::Protect => {
                self.inherited_debts.resize(self.neighbourhoods, InheritedDebt::default());
                let neighbourhood = hash.among(self.neighbourhoods);
                if let Some(debt) = self.inherited_debts.get_mut(neighbourhood) {
                    let alone = debt.until <= at || debt.tag == tag;
                    debt.tag = if alone { tag } else { 0 };
                    debt.until = debt.until.max(fresh_at);
                }
            }
            Loss::Owing { .. }
            | Loss::OwingMuch { .. }
            | Loss::Throttled { .. }
            | Loss::Unused
            | Loss::Bound => {}
        }
    }

    /// Notes that a state is forgotten that meant something until `fresh_at`.
    pub(super) fn forget_until(&mut self, fresh_at: Micros) {
        self.floor = self.floor.max(fresh_at);
    }

    /// Keeps the words of a long state; `None` if there is no memory for them.
    pub(super) fn spill(&mut self, table: &Table, words: &[u64]) -> Option<u64> {
        if !table.share.take(bytes_of(words)) {
            return None;
        }
        let index = self.free.pop();
        Some(
            match index
                .and_then(|index| self.spilled.get_mut(as_index(index)).map(|slot| (index, slot)))
            {
                Some((index, slot)) => {
                    *slot = words.into();
                    index
                }
                None => {
                    self.spilled.push(words.into());
                    self.spilled.len() as u64 - 1
                }
            },
        )
    }

    pub(super) fn spilled(&self, index: u64) -> &[u64] {
        self.spilled.get(as_index(index)).map_or(&[], |words| words)
    }

    /// How many long states are kept.
    #[cfg(test)]
    pub(super) fn spilled_in_use(&self) -> usize {
        self.spilled.len() - self.free.len()
    }

    /// Frees what a content keeps outside its line.
    pub(super) fn release(&mut self, table: &Table, content: &Content) {
        if let Content::Long { index, .. } = content
            && let Some(slot) = self.spilled.get_mut(as_index(*index))
        {
            table.share.give_back(bytes_of(slot));
            *slot = Box::default();
            self.free.push(*index);
        }
    }

    fn free_some_expired(&mut self, table: &Table, shard: usize, at: Micros) {
        if self.spilled.len() == self.free.len() {
            return;
        }
        let seen = self.free_expired(table, shard, at, (self.hand, HAND_STEPS));
        self.hand = if seen < HAND_STEPS { 0 } else { self.hand + seen };
    }

    /// Frees the long states that expired among `count` lines from `from` on; the lines stay in
    /// use, without a state. Returns how many lines there were.
    pub(super) fn free_expired(
        &mut self,
        table: &Table,
        shard: usize,
        at: Micros,
        (from, count): (usize, usize),
    ) -> usize {
        let mut seen = 0;
        for (_, line) in table.lines_of(shard).skip(from).take(count) {
            seen += 1;
            let Some(held) = Held::try_lock(line) else {
                continue;
            };
            let Some(content @ Content::Long { fresh_at, .. }) = held.content() else {
                continue;
            };
            if fresh_at <= at {
                self.forget_until(fresh_at);
                self.release(table, &content);
                let (id, tag) = (held.id(), held.tag());
                let nothing = crate::state::Words::new(&[]);
                held.put(id, tag, &Content::Short { fresh_at, words: nothing, fill: Fill::LITTLE });
            }
        }
        seen
    }
}

/// The bytes that a long state takes, with what the allocator adds.
const fn bytes_of(words: &[u64]) -> usize {
    size_of_val(words) + 2 * size_of::<Box<[u64]>>()
}

fn as_index(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

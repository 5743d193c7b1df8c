//! How much the records of each key weigh, so that a key can be held to its share.
//!
//! An exact count for each key would take as much memory as its record. Each key has four counters
//! instead, one of each row, and weighs at most what the least of them says: it is more than the
//! truth only if keys with records share all four. One key that takes all it can get is counted
//! exactly but for what chance adds.

const ROWS: usize = 4;
const COLUMNS: usize = 256;

#[derive(Debug)]
pub(super) struct Shares(Box<[[u32; COLUMNS]; ROWS]>);

impl Default for Shares {
    fn default() -> Self {
        Self(Box::new([[0; COLUMNS]; ROWS]))
    }
}

impl Shares {
    /// What the records of a key weigh, or a little more.
    pub(super) fn of(&self, key: u32) -> usize {
        let each = self.0.iter().zip(key.to_le_bytes());
        let counts = each.filter_map(|(row, column)| row.get(usize::from(column)));
        counts.min().copied().map_or(0, |least| usize::try_from(least).unwrap_or(usize::MAX))
    }

    pub(super) fn add(&mut self, key: u32, weight: u32) {
        self.change(key, |count| count.saturating_add(weight));
    }

    pub(super) fn subtract(&mut self, key: u32, weight: u32) {
        self.change(key, |count| count.saturating_sub(weight));
    }

    fn change(&mut self, key: u32, to: impl Fn(u32) -> u32) {
        for (row, column) in self.0.iter_mut().zip(key.to_le_bytes()) {
            if let Some(count) = row.get_mut(usize::from(column)) {
                *count = to(*count);
            }
        }
    }
}

//! sliding_log: the list of what was admitted and when.

use std::collections::BTreeSet;

use tollgate_core::{Cost, Decision, Forecast, Micros, Now, Receipt};

use crate::model::{Bound, Mathematics, UNITS_MAX, millisecond_before, ms_up};

/// Charges of other quotas begin no event of their own once there are this many times; those into
/// debt, once there are this many and as many as the limit has units.
const SHARED_TIMES: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct SlidingLog {
    limit: u64,
    window: Micros,
    /// (time, units), oldest first. An entry of no units only keeps the time it was written at.
    events: Vec<(Micros, u64)>,
}

impl SlidingLog {
    pub(super) const fn new(limit: u64, window: Micros) -> Self {
        Self { limit, window, events: Vec::new() }
    }

    fn decided_at(&self, now: Now) -> Micros {
        now.effective().max(self.newest())
    }

    fn newest(&self) -> Micros {
        self.events.last().map_or(0, |(time, _)| *time)
    }

    /// Adds units. In a log of many times those of the newest are moved to that of the charge:
    /// units that leave later are never too few.
    fn add_to_many(&mut self, at: Micros, units: u64, many: usize) {
        let mut live: Vec<(Micros, u64)> = self.live(at).collect();
        let times: BTreeSet<Micros> = live.iter().map(|(time, _)| *time).collect();
        if let Some(newest) = times.last().filter(|_| times.len() >= many) {
            for (time, _) in live.iter_mut().filter(|(time, _)| time == newest) {
                *time = at;
            }
        }
        live.push((at, units));
        self.events = live;
    }

    /// The events in (at − W, at].
    fn live(&self, at: Micros) -> impl DoubleEndedIterator<Item = (Micros, u64)> {
        let counts = move |(time, units): &(Micros, u64)| *units > 0 && time + self.window > at;
        self.events.iter().copied().filter(counts)
    }

    fn counted(&self, at: Micros) -> u64 {
        self.live(at).map(|(_, units)| units).sum()
    }

    fn reset_at_ms(&self, now: Now) -> u64 {
        let newest = self.live(self.decided_at(now)).next_back();
        ms_up(newest.map_or_else(|| now.reading(), |(time, _)| time + self.window))
    }

    /// The earliest instant at which `units` fewer are counted.
    fn freed_at(&self, at: Micros, units: u64) -> Micros {
        let mut gone = 0;
        for (time, held) in self.live(at) {
            gone += held;
            if gone >= units {
                return time + self.window;
            }
        }
        at
    }
}

impl Mathematics for SlidingLog {
    fn peek(&self, now: Now, cost: Cost) -> Decision {
        let at = self.decided_at(now);
        let counted = self.counted(at);
        let (left, reset) = (self.limit.saturating_sub(counted), self.reset_at_ms(now));
        if cost.get() > self.limit {
            Decision::never(self.limit, left, reset)
        } else if counted + cost.get() <= self.limit {
            Decision::allowed(self.limit, left, reset)
        } else {
            let free = self.freed_at(at, counted + cost.get() - self.limit);
            Decision::denied(self.limit, left, reset, ms_up(free - now.reading()))
        }
    }

    fn charge(&mut self, now: Now, cost: Cost) -> Decision {
        let at = self.decided_at(now);
        self.events = self.live(at).collect();
        self.events.push((at, cost.get()));
        Decision::allowed(self.limit, self.limit - self.counted(at), self.reset_at_ms(now))
    }

    fn count_granted(&mut self, now: Now, cost: Cost) {
        let at = self.decided_at(now);
        let units = cost.get().min(UNITS_MAX - self.counted(at));
        self.add_to_many(at, units, SHARED_TIMES);
    }

    fn forecast(&self, now: Now) -> Forecast {
        let at = self.decided_at(now);
        let counted = self.counted(at);
        let next =
            (counted > 0).then(|| ms_up(self.freed_at(at, counted.saturating_sub(self.limit) + 1)));
        let left = self.limit.saturating_sub(counted);
        Forecast::new(self.limit, left, next, self.reset_at_ms(now))
    }

    /// The units leave the newest events; for a receipt, the oldest of those that leave the window
    /// in its millisecond, and none once that has begun, for the one that is meant may have left.
    fn refund(&mut self, now: Now, cost: Cost, receipt: Receipt) -> u64 {
        let at = self.decided_at(now);
        let live: Vec<(Micros, u64)> = self.live(at).collect();
        let order: Vec<usize> = match receipt {
            Receipt::Until(end) => {
                let (after, until) = millisecond_before(end);
                let leaves = |time: Micros| (after + 1..=until).contains(&(time + self.window));
                let meant = live.iter().enumerate().filter(|(_, (time, _))| leaves(*time));
                meant.filter(|_| at <= after).map(|(index, _)| index).collect()
            }
            _ => (0..live.len()).rev().collect(),
        };
        let mut left = cost.get();
        let mut kept = live;
        for index in order {
            if let Some((_, held)) = kept.get_mut(index) {
                let taken = left.min(*held);
                *held -= taken;
                left -= taken;
            }
        }
        kept.retain(|(_, held)| *held > 0);
        let back = cost.get() - left;
        if back > 0 {
            // Time never goes back: the log keeps what it has seen, whatever it gives back.
            match kept.last() {
                None => kept.push((at, 0)),
                Some((newest, _)) if *newest < self.newest() => kept.push((self.newest(), 0)),
                Some(_) => {}
            }
            self.events = kept;
        }
        back
    }

    fn overdraw(&mut self, now: Now, units: Cost, max_debt: u64) -> u64 {
        let at = self.decided_at(now);
        let most = self.limit.saturating_add(max_debt).min(UNITS_MAX);
        let charged = units.get().min(most.saturating_sub(self.counted(at)));
        if charged > 0 {
            let times = usize::try_from(self.limit).unwrap_or(usize::MAX);
            self.add_to_many(at, charged, times.max(SHARED_TIMES));
        }
        charged
    }

    fn seen(&self, _now: Now) -> Micros {
        self.newest()
    }

    fn owed(&self, now: Now) -> u64 {
        self.counted(self.decided_at(now))
    }

    fn owe(&mut self, at: Micros, units: u64) {
        self.events = vec![(at, units)];
    }

    fn is_untouched(&self) -> bool {
        self.events.is_empty()
    }

    fn set_limit(&mut self, limit: u64) -> bool {
        self.limit = limit;
        true
    }

    /// L in (n − W, n].
    fn bound(&self, _first: Micros, last: Micros) -> Bound {
        Bound { since: (last + 1).saturating_sub(self.window), most: self.limit.into() }
    }
}

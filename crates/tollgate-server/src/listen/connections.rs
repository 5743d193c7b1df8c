//! The open connections of a listener: their number is bounded, and each is closed when one of its
//! time limits has passed.
//!
//! When the listener is full, a connection makes room for a new one: the oldest without a valid
//! request, busy or not, because clients without a token must not keep others out; else the one
//! that has been idle for longest. When all are busy with valid clients, a few more are accepted
//! for health and readiness alone: a probe must not fail because clients are busy. Of these the
//! oldest makes room, whatever it does: a probe takes a moment.
//!
//! Clients that leave without a valid request, by themselves or to make room, are bounded in their
//! rate ([`Pace`]).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::client::{Client, Close};
use super::pace::Pace;
use crate::config::TimeLimits;
use crate::telemetry::Telemetry;

/// Connections beyond the bound, for health and readiness.
const RESERVED: usize = 64;
/// How often time limits are checked: a fraction of the shortest one, within these bounds.
const CHECKS_PER_LIMIT: u32 = 20;
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// The shortest time between two searches for idle connections, for each connection.
const SEARCH_PAUSE: Duration = Duration::from_micros(1);

/// The open connections of one listener.
#[derive(Debug)]
pub(super) struct Connections {
    protocol: &'static str,
    max: usize,
    limits: TimeLimits,
    telemetry: Arc<Telemetry>,
    open: Mutex<Open>,
    streams: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    clients: HashMap<u64, Arc<Client>>,
    /// How many of them are beyond the bound.
    reserved: usize,
    /// Those beyond the bound, and those within it without a valid request, in the order in which
    /// they connected. Some have ended since, or made a valid request.
    oldest_reserved: VecDeque<u64>,
    oldest_invalid: VecDeque<u64>,
    /// The idle ones within the bound.
    idle: Idle,
    /// Those that left without a valid request.
    pace: Pace,
}

/// Connections in the order in which they became idle, as of the last search for them. One that
/// became idle later comes after all of them, so a search serves many evictions.
#[derive(Debug, Default)]
struct Idle {
    order: VecDeque<(Instant, u64)>,
    searched: Option<Instant>,
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) client: Arc<Client>,
    number: u64,
    connections: Arc<Connections>,
}

impl Connections {
    pub(super) fn new(
        protocol: &'static str,
        max: usize,
        limits: TimeLimits,
        telemetry: Arc<Telemetry>,
    ) -> Arc<Self> {
        telemetry.metrics.add_listener(protocol, &Close::ALL.map(Close::as_str));
        let streams = Arc::new(Semaphore::new(max));
        Arc::new(Self { protocol, max, limits, telemetry, open: Mutex::default(), streams })
    }

    /// Nothing panics while it is locked.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the listener may accept a connection.
    pub(super) async fn turn(&self) {
        loop {
            let wait = self.open().pace.wait(Instant::now());
            if wait.is_zero() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Counts a new connection. It takes the place of another one when the listener is full.
    pub(super) fn admit(self: &Arc<Self>) -> Counted {
        let mut open = self.open();
        let is_full = open.clients.len() - open.reserved >= self.max;
        let evicted = if is_full { open.remove_invalid_or_idle() } else { None };
        let reserved = is_full && evicted.is_none();
        let evicted = if reserved && open.reserved >= RESERVED {
            open.remove_oldest_reserved()
        } else {
            evicted
        };
        if let Some(client) = evicted {
            self.close(&client, Close::Full);
        }
        let client = Client::new(Arc::clone(&self.streams), reserved);
        let number = open.insert(Arc::clone(&client));
        Counted { client, number, connections: Arc::clone(self) }
    }

    fn close(&self, client: &Client, why: Close) {
        if client.close(why) {
            self.telemetry.metrics.closed(self.protocol, why.as_str());
        }
    }

    /// Checks all time limits until the listener and its connections are gone.
    pub(super) async fn check_limits(connections: Weak<Self>) {
        loop {
            let Some(interval) = connections.upgrade().map(|open| open.interval()) else { return };
            tokio::time::sleep(interval).await;
            let Some(connections) = connections.upgrade() else { return };
            let now = Instant::now();
            for client in connections.open().clients.values() {
                if let Some(why) = client.expired(now, &connections.limits) {
                    connections.close(client, why);
                }
            }
        }
    }

    fn interval(&self) -> Duration {
        let TimeLimits { first_request, request, reply, idle } = self.limits;
        let (least, most) = CHECK_INTERVAL;
        let shortest = first_request.min(request).min(reply).min(idle);
        (shortest / CHECKS_PER_LIMIT).clamp(least, most)
    }
}

impl Open {
    fn insert(&mut self, client: Arc<Client>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.reserved += usize::from(client.is_reserved());
        let order =
            if client.is_reserved() { &mut self.oldest_reserved } else { &mut self.oldest_invalid };
        self.clients.insert(number, client);
        order.push_back(number);
        // Those that have ended or made a valid request are removed once they are the most.
        if order.len() > 2 * self.clients.len() {
            let is_current = |client: &Arc<Client>| client.is_reserved() || !client.is_valid();
            order.retain(|number| self.clients.get(number).is_some_and(is_current));
        }
        number
    }

    /// Removes the oldest connection beyond the bound.
    fn remove_oldest_reserved(&mut self) -> Option<Arc<Client>> {
        while let Some(number) = self.oldest_reserved.pop_front() {
            if let Some(client) = self.remove(number) {
                return Some(client);
            }
        }
        None
    }

    /// Removes the oldest connection without a valid request, or else the one that has been idle
    /// for longest, if there is one.
    fn remove_invalid_or_idle(&mut self) -> Option<Arc<Client>> {
        while let Some(number) = self.oldest_invalid.pop_front() {
            if self.clients.get(&number).is_some_and(|client| !client.is_valid()) {
                return self.remove(number);
            }
        }
        for search in [false, true] {
            if search && !self.idle.search(&self.clients) {
                return None;
            }
            while let Some((since, number)) = self.idle.order.pop_front() {
                let client = self.clients.get(&number);
                if client.is_some_and(|client| client.idle_since() == Some(since)) {
                    return self.remove(number);
                }
            }
        }
        None
    }

    fn remove(&mut self, number: u64) -> Option<Arc<Client>> {
        let client = self.clients.remove(&number)?;
        self.reserved -= usize::from(client.is_reserved());
        if !client.is_valid() {
            self.pace.count(Instant::now());
        }
        Some(client)
    }
}

impl Idle {
    /// Finds the idle connections; `false` if that was done a moment ago. When all are busy, new
    /// connections must not cost a search each.
    fn search(&mut self, clients: &HashMap<u64, Arc<Client>>) -> bool {
        let now = Instant::now();
        let pause = SEARCH_PAUSE.saturating_mul(u32::try_from(clients.len()).unwrap_or(u32::MAX));
        if self.searched.is_some_and(|at| now.saturating_duration_since(at) < pause) {
            return false;
        }
        let within = clients.iter().filter(|(_, client)| !client.is_reserved());
        let idle = within.filter_map(|(number, client)| Some((client.idle_since()?, *number)));
        let mut order: Vec<(Instant, u64)> = idle.collect();
        order.sort_unstable();
        (self.order, self.searched) = (order.into(), Some(now));
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.open().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn connections(max: usize) -> Arc<Connections> {
        let config = Config::of_text(&[], |_| None, None).unwrap();
        let telemetry = Telemetry::new(&config).unwrap();
        Connections::new("grpc", max, config.time_limits, telemetry)
    }

    /// How long the listener waits after 1,000 connections, one after another, whose clients do
    /// this.
    fn wait_after(act: impl Fn(&Client)) -> Duration {
        let connections = connections(2);
        for _ in 0..1_000 {
            act(&connections.admit().client);
        }
        connections.open().pace.wait(Instant::now())
    }

    #[test]
    fn clients_without_a_valid_request_come_and_go_at_a_bounded_rate() {
        assert_eq!(wait_after(Client::made_valid_request), Duration::ZERO);
        let wait = wait_after(|_| {});
        assert!(wait >= Duration::from_millis(100), "{wait:?}");
    }
}

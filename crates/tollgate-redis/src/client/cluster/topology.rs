//! The map of a cluster, and how it is read.
//!
//! The map is always read in the background: a caller has little time, and a node that does not
//! answer may take longer than all of it. The first call waits for the map; when reading it has
//! failed, calls fail at once until there is a map. It is read anew whenever it seems wrong: a
//! connection is lost, or a node redirects.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;
use tollgate_core::store::{Backoff, Endpoint, Jitter, LastAnswer};
use tollgate_core::{Code, Error, Result};

use super::map::{Map, Range, ranges};
use super::numbers::Numbers;
use crate::client::dial::dial;
use crate::client::host::Host;
use crate::client::node::Node;
use crate::client::settings::Settings;
use crate::client::shared::{closed, no_runtime};
use crate::client::target::{Address, Target};

/// Between two maps, so that a cluster in trouble is not queried all the time.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Known {
    Nothing,
    Failed(Error),
    Map(Arc<Map>),
    Closed,
}

/// The map of a cluster.
#[derive(Debug)]
pub(super) struct Topology {
    seeds: Vec<Host>,
    settings: Arc<Settings>,
    known: RwLock<Known>,
    refresh: AtomicU8,
    numbers: Numbers,
    /// Notified whenever an attempt has ended.
    attempted: Notify,
}

/// No task refreshes the map; one does; one does and has to once more.
const IDLE: u8 = 0;
const RUNNING: u8 = 1;
const RUNNING_AGAIN: u8 = 2;

impl Topology {
    pub(super) fn new(seeds: Vec<Host>, settings: Arc<Settings>) -> Arc<Self> {
        Arc::new(Self {
            seeds,
            settings,
            known: RwLock::new(Known::Nothing),
            refresh: AtomicU8::new(IDLE),
            numbers: Numbers::default(),
            attempted: Notify::new(),
        })
    }

    /// The map. As long as no attempt has ended, callers wait for one.
    ///
    /// # Errors
    /// When no node answers. All of them are `not_sent`.
    pub(super) async fn map(self: &Arc<Self>) -> Result<Arc<Map>> {
        loop {
            // Made before the look: an attempt that ends after that is not missed.
            let attempted = self.attempted.notified();
            match self.known_map() {
                Ok(Some(map)) => return Ok(map),
                Ok(None) => self.begin()?,
                Err(error) => {
                    // The task that refreshes may have ended with its runtime.
                    if !self.is_closed() {
                        self.begin()?;
                    }
                    return Err(error);
                }
            }
            attempted.await;
        }
    }

    /// The node at a host, which need not serve any slot yet.
    pub(super) fn node(&self, host: &Host) -> Arc<Node> {
        let known = self.known_map().ok().flatten();
        if let Some(node) = known.and_then(|map| map.at(host).map(Arc::clone)) {
            return node;
        }
        match &mut *self.known.write().unwrap_or_else(PoisonError::into_inner) {
            Known::Map(map) => Arc::make_mut(map).node_at(host, |host| self.new_node(host)),
            _ => self.new_node(host),
        }
    }

    /// The number of the node that serves a slot. Without a map all slots fail together.
    pub(super) fn endpoint(&self, slot: Option<u16>) -> Endpoint {
        match &*self.known.read().unwrap_or_else(PoisonError::into_inner) {
            Known::Map(map) => slot.and_then(|slot| map.owner(slot)).map(|node| node.endpoint()),
            Known::Nothing | Known::Failed(_) | Known::Closed => None,
        }
        .unwrap_or(Endpoint::FIRST)
    }

    /// The last answer of the node that serves a slot.
    pub(super) fn last_answer(&self, slot: Option<u16>) -> Option<LastAnswer> {
        match &*self.known.read().unwrap_or_else(PoisonError::into_inner) {
            Known::Map(map) => map.owner(slot?)?.last_answer(),
            Known::Nothing | Known::Failed(_) | Known::Closed => None,
        }
    }

    /// Another node serves a slot; returns that node.
    pub(super) fn moved(self: &Arc<Self>, slot: u16, host: &Host) -> Arc<Node> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let Known::Map(map) = &mut *known else {
            drop(known);
            return self.new_node(host);
        };
        let map = Arc::make_mut(map);
        map.move_slot(slot, host, |host| self.new_node(host));
        let node = map.at(host).map(Arc::clone);
        drop(known);
        self.refresh();
        node.unwrap_or_else(|| self.new_node(host))
    }

    /// Reads the map again in the background.
    pub(super) fn refresh(self: &Arc<Self>) {
        let next = |state| Some(if state == IDLE { RUNNING } else { RUNNING_AGAIN });
        let before = self.refresh.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before == Ok(IDLE) {
            // Without a runtime there is no connection either, and the call fails for that.
            let _ = self.spawn();
        }
    }

    /// Starts a task that reads the map, unless one runs.
    fn begin(self: &Arc<Self>) -> Result<()> {
        let begun =
            self.refresh.compare_exchange(IDLE, RUNNING, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_ok() { self.spawn() } else { Ok(()) }
    }

    fn spawn(self: &Arc<Self>) -> Result<()> {
        let refresh = Refresh { topology: Arc::clone(self), is_finished: false };
        let runtime = Handle::try_current().map_err(|_| no_runtime())?;
        runtime.spawn(refresh.run());
        Ok(())
    }

    pub(super) fn close(&self) {
        if let Ok(Some(map)) = self.known_map() {
            map.all_nodes().for_each(|node| node.close());
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Known::Closed;
        self.attempted.notify_waiters();
    }

    fn known_map(&self) -> Result<Option<Arc<Map>>> {
        match &*self.known.read().unwrap_or_else(PoisonError::into_inner) {
            Known::Nothing => Ok(None),
            Known::Map(map) => Ok(Some(Arc::clone(map))),
            Known::Failed(error) => Err(error.clone().not_sent()),
            Known::Closed => Err(closed()),
        }
    }

    /// No node answers. A map that is there is kept: it may still be right.
    fn fail(&self, error: Error) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*known, Known::Nothing | Known::Failed(_)) {
            *known = Known::Failed(error.as_event());
        }
    }

    fn new_node(&self, host: &Host) -> Arc<Node> {
        let target = Target::new(Address::At(host.clone()), Arc::clone(&self.settings));
        Node::new(target, self.numbers.of(host))
    }

    /// Queries nodes until one answers: those of the map, beginning at a random one, then the
    /// seeds.
    async fn read(&self) -> Result<()> {
        let mut hosts: Vec<Host> = Vec::new();
        if let Ok(Some(map)) = self.known_map() {
            hosts.extend(map.nodes().iter().filter_map(|node| node.target().host()).cloned());
        }
        if !hosts.is_empty() {
            let count = hosts.len();
            hosts.rotate_left(usize::try_from(Jitter::new().next()).unwrap_or_default() % count);
        }
        hosts.extend(self.seeds.iter().cloned());
        let mut failure = unreachable(&self.seeds);
        for host in hosts {
            match self.read_from(&host).await {
                Ok(ranges) => {
                    self.replace_map(ranges);
                    return Ok(());
                }
                Err(error) => failure = error.not_sent(),
            }
        }
        Err(failure)
    }

    async fn read_from(&self, host: &Host) -> Result<Vec<Range>> {
        let mut connection = dial(host, &self.settings).await?;
        let limit = self.settings.connect_timeout;
        let replies = connection.exchange(&[&[b"CLUSTER", b"SLOTS"]], limit).await?;
        let reply = replies.into_iter().next().ok_or_else(|| unreachable(&self.seeds))?;
        ranges(reply, host)
    }

    /// Nodes that stay keep their connections.
    fn replace_map(&self, ranges: Vec<Range>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let map = match &*known {
            Known::Closed => return,
            Known::Map(before) => {
                let kept = |host: &Host| before.all_nodes().find(|node| node.is_at(host));
                let node = |host: &Host| kept(host).map_or_else(|| self.new_node(host), Arc::clone);
                Map::new(ranges, node).succeed(before)
            }
            Known::Nothing | Known::Failed(_) => Map::new(ranges, |host| self.new_node(host)),
        };
        *known = Known::Map(Arc::new(map));
    }

    fn is_closed(&self) -> bool {
        matches!(*self.known.read().unwrap_or_else(PoisonError::into_inner), Known::Closed)
    }
}

/// The task that reads the map. When its runtime ends, the next call starts another one.
struct Refresh {
    topology: Arc<Topology>,
    is_finished: bool,
}

impl Refresh {
    async fn run(mut self) {
        let topology = Arc::clone(&self.topology);
        let mut backoff = Backoff::endless(FIRST_WAIT, LONGEST_WAIT);
        // The client was dropped when only this task holds the topology.
        while Arc::strong_count(&topology) > 2 && !topology.is_closed() {
            topology.refresh.store(RUNNING, Ordering::Release);
            let read = topology.read().await;
            let is_read = read.is_ok();
            match read {
                Ok(()) => backoff.reset(),
                Err(error) => topology.fail(error),
            }
            topology.attempted.notify_waiters();
            sleep(backoff.next_wait().unwrap_or(LONGEST_WAIT)).await;
            let (from, to) = (Ordering::AcqRel, Ordering::Acquire);
            if is_read && topology.refresh.compare_exchange(RUNNING, IDLE, from, to).is_ok() {
                self.is_finished = true;
                return;
            }
        }
    }
}

impl Drop for Refresh {
    fn drop(&mut self) {
        if !self.is_finished {
            self.topology.refresh.store(IDLE, Ordering::Release);
            self.topology.attempted.notify_waiters();
        }
    }
}

fn unreachable(seeds: &[Host]) -> Error {
    let seeds: Vec<String> = seeds.iter().map(Host::to_string).collect();
    let message = format!("no node of the cluster answers, beginning at {}", seeds.join(", "));
    Error::new(Code::StoreUnavailable, message).not_sent()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::settings::Login;

    fn all_slots(host: &Host) -> Vec<Range> {
        vec![Range { first: 0, last: 16_383, host: host.clone() }]
    }

    fn topology() -> Arc<Topology> {
        let limit = Duration::from_secs(1);
        let settings = Settings {
            login: Login::default(),
            database: 0,
            name: None,
            tls: None,
            connect_timeout: limit,
            reply_timeout: limit,
        };
        Topology::new(vec![], Arc::new(settings))
    }

    #[test]
    fn nodes_keep_their_connections_from_map_to_map() {
        let (owner, other) = (Host::new("owner", 1), Host::new("other", 2));
        let topology = topology();
        topology.replace_map(all_slots(&owner));
        let [first, asked] = [topology.node(&owner), topology.node(&other)];
        assert!(Arc::ptr_eq(&asked, &topology.node(&other)), "each call has its own connection");
        topology.replace_map(all_slots(&owner));
        assert!(Arc::ptr_eq(&first, &topology.node(&owner)));
        assert!(Arc::ptr_eq(&asked, &topology.node(&other)));
        // An unmapped node that is given slots is the same node still.
        topology.replace_map(all_slots(&other));
        let map = topology.known_map().unwrap().unwrap();
        assert!(Arc::ptr_eq(&asked, map.owner(7).unwrap()));
    }

    #[test]
    fn an_unmapped_node_that_no_redirect_names_is_forgotten() {
        let (owner, other) = (Host::new("owner", 1), Host::new("other", 2));
        let topology = topology();
        topology.replace_map(all_slots(&owner));
        let asked = Arc::downgrade(&topology.node(&other));
        topology.replace_map(all_slots(&owner));
        assert!(asked.upgrade().is_some());
        topology.replace_map(all_slots(&owner));
        assert!(asked.upgrade().is_none());
    }
}

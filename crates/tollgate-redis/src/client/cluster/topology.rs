//! What is known of a cluster, and how it is learnt.
//!
//! It is always learnt in the background: callers have little time, and asking a node that is silent may
//! take longer than all of it. The first use waits for it, as long as it likes; when that has failed, calls
//! fail at once until there is a map. Afterwards it is learnt anew whenever it seems wrong: a node is lost,
//! or redirects.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;
use tollgate_core::{Code, Error, Result};

use super::map::{Map, Range, ranges};
use crate::client::backoff::{Backoff, random};
use crate::client::dial::dial;
use crate::client::host::Host;
use crate::client::link::no_runtime;
use crate::client::node::Node;
use crate::client::settings::Settings;
use crate::client::target::{Place, Target};
use crate::transport::Districts;

/// Between two maps, so that a cluster in trouble is not asked all the time.
const CALM: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How many runtimes may end under a caller who waits for the first map.
const WAITS_MAX: usize = 3;

/// What is known.
#[derive(Clone, Debug)]
enum Known {
    Nothing,
    Failed(Arc<Error>),
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
    /// Told whenever a turn has learnt something, or has ended.
    learnt: Notify,
}

/// Nobody refreshes; somebody does; somebody does and should once more.
const RESTS: u8 = 0;
const RUNS: u8 = 1;
const AGAIN: u8 = 2;

impl Topology {
    pub(super) fn new(seeds: Vec<Host>, settings: Arc<Settings>) -> Arc<Self> {
        Arc::new(Self {
            seeds,
            settings,
            known: RwLock::new(Known::Nothing),
            refresh: AtomicU8::new(RESTS),
            learnt: Notify::new(),
        })
    }

    /// The map. As long as nothing is known, callers wait until it is learnt.
    ///
    /// # Errors
    /// When no node answers. All of them are unsent.
    pub(super) async fn map(self: &Arc<Self>) -> Result<Arc<Map>> {
        for _ in 0..WAITS_MAX {
            // Made before the look: what is learnt after that is not missed.
            let learnt = self.learnt.notified();
            match self.known_map() {
                Ok(Some(map)) => return Ok(map),
                Ok(None) => self.begin()?,
                Err(error) => {
                    // Whoever was to find it may have ended with its runtime.
                    if !self.is_closed() {
                        self.begin()?;
                    }
                    return Err(error);
                }
            }
            learnt.await;
        }
        self.known_map()?.ok_or_else(|| unreachable(&self.seeds))
    }

    /// The node that serves a slot, if that is known.
    pub(super) fn owner(&self, slot: u16) -> Option<Arc<Node>> {
        match &*self.known.read().unwrap_or_else(PoisonError::into_inner) {
            Known::Map(map) => map.owner(slot).map(Arc::clone),
            _ => None,
        }
    }

    /// Which slots have keys that may share a call, as far as is known.
    pub(super) fn districts(&self) -> Option<Arc<Districts>> {
        match &*self.known.read().unwrap_or_else(PoisonError::into_inner) {
            Known::Map(map) if self.settings.shares_calls => Some(Arc::clone(map.districts())),
            _ => None,
        }
    }

    /// The node at a host, which need not serve any slot yet.
    pub(super) fn node(&self, host: &Host) -> Arc<Node> {
        let known = self.known_map().ok().flatten();
        if let Some(node) = known.and_then(|map| map.at(host).map(Arc::clone)) {
            return node;
        }
        match &mut *self.known.write().unwrap_or_else(PoisonError::into_inner) {
            Known::Map(map) => Arc::make_mut(map).invite(host, |host| self.new_node(host)),
            _ => self.new_node(host),
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

    /// Learns the map anew in the background.
    pub(super) fn refresh(self: &Arc<Self>) {
        let next = |state| Some(if state == RESTS { RUNS } else { AGAIN });
        let before = self.refresh.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        if before == Ok(RESTS) {
            // Without a runtime there is no connection either, and whoever needs one is told.
            let _ = self.spawn_turn();
        }
    }

    /// Sees to it that somebody learns the map.
    fn begin(self: &Arc<Self>) -> Result<()> {
        let begun = self.refresh.compare_exchange(RESTS, RUNS, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_ok() { self.spawn_turn() } else { Ok(()) }
    }

    fn spawn_turn(self: &Arc<Self>) -> Result<()> {
        let turn = Turn { topology: Arc::clone(self), is_over: false };
        let runtime = Handle::try_current().map_err(|_| no_runtime())?;
        runtime.spawn(turn.run());
        Ok(())
    }

    pub(super) fn close(&self) {
        if let Ok(Some(map)) = self.known_map() {
            map.everybody().for_each(|node| node.close());
        }
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Known::Closed;
        self.learnt.notify_waiters();
    }

    fn known_map(&self) -> Result<Option<Arc<Map>>> {
        match &*self.known.read().unwrap_or_else(PoisonError::into_inner) {
            Known::Nothing => Ok(None),
            Known::Map(map) => Ok(Some(Arc::clone(map))),
            Known::Failed(error) => Err(Error::clone(error).not_sent()),
            Known::Closed => Err(crate::client::queue::closed()),
        }
    }

    /// No node answers. A map that is there is kept: it may still be right.
    fn fail(&self, error: Error) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if matches!(*known, Known::Nothing | Known::Failed(_)) {
            *known = Known::Failed(Arc::new(error));
        }
    }

    fn new_node(&self, host: &Host) -> Arc<Node> {
        Node::new(Target::new(Place::At(host.clone()), Arc::clone(&self.settings)))
    }

    /// Asks nodes until one answers: those that are known, beginning at a random one, then those that
    /// were given.
    async fn learn(&self) -> Result<()> {
        let mut hosts: Vec<Host> = Vec::new();
        if let Ok(Some(map)) = self.known_map() {
            hosts.extend(map.nodes().iter().filter_map(|node| node.target().host()).cloned());
        }
        if !hosts.is_empty() {
            let count = hosts.len();
            hosts.rotate_left(usize::try_from(random()).unwrap_or_default() % count);
        }
        hosts.extend(self.seeds.iter().cloned());
        let mut failure = unreachable(&self.seeds);
        for host in hosts {
            match self.learn_from(&host).await {
                Ok(ranges) => {
                    self.replace_map(ranges);
                    return Ok(());
                }
                Err(error) => failure = error.not_sent(),
            }
        }
        Err(failure)
    }

    async fn learn_from(&self, host: &Host) -> Result<Vec<Range>> {
        let mut wire = dial(host, &self.settings).await?;
        let replies =
            wire.exchange(&[&[b"CLUSTER", b"SLOTS"]], self.settings.connect_timeout).await?;
        let reply = replies.into_iter().next().ok_or_else(|| unreachable(&self.seeds))?;
        ranges(reply, host)
    }

    /// Nodes that stay keep their connections.
    fn replace_map(&self, ranges: Vec<Range>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let map = match &*known {
            Known::Closed => return,
            Known::Map(before) => {
                let kept = |host: &Host| before.everybody().find(|node| node.is_at(host));
                let node = |host: &Host| kept(host).map_or_else(|| self.new_node(host), Arc::clone);
                Map::new(ranges, node).succeed(before)
            }
            Known::Nothing | Known::Failed(_) => Map::new(ranges, |host| self.new_node(host)),
        };
        *known = Known::Map(Arc::new(map));
    }

    /// Ends a turn, unless somebody has asked for another one.
    fn rest(&self) -> bool {
        let rested =
            self.refresh.compare_exchange(RUNS, RESTS, Ordering::AcqRel, Ordering::Acquire);
        rested.is_ok()
    }

    fn is_closed(&self) -> bool {
        matches!(*self.known.read().unwrap_or_else(PoisonError::into_inner), Known::Closed)
    }
}

/// Whoever refreshes. Ends when its runtime does, so that another one can.
struct Turn {
    topology: Arc<Topology>,
    is_over: bool,
}

impl Turn {
    async fn run(mut self) {
        let topology = Arc::clone(&self.topology);
        let mut backoff = Backoff::new(CALM, LONGEST_PAUSE);
        // The client is gone when nobody but this turn knows the topology.
        while Arc::strong_count(&topology) > 2 && !topology.is_closed() {
            topology.refresh.store(RUNS, Ordering::Release);
            let learnt = topology.learn().await;
            let is_learnt = learnt.is_ok();
            match learnt {
                Ok(()) => backoff.reset(),
                Err(error) => topology.fail(error),
            }
            topology.learnt.notify_waiters();
            sleep(backoff.pause()).await;
            if is_learnt && topology.rest() {
                self.is_over = true;
                return;
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.topology.refresh.store(RESTS, Ordering::Release);
            self.topology.learnt.notify_waiters();
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
    use crate::script::Script;
    use crate::transport::{Args, Call, Reply};

    fn slots(host: &Host) -> Vec<Range> {
        let name = Reply::Text(host.name().as_bytes().to_vec());
        let node = Reply::List(vec![name, Reply::Integer(i64::from(host.port()))]);
        let row = Reply::List(vec![Reply::Integer(0), Reply::Integer(16_383), node]);
        ranges(Reply::List(vec![row]), host).unwrap()
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
            connections: 1,
            shares_calls: true,
        };
        Topology::new(vec![], Arc::new(settings))
    }

    #[test]
    fn nodes_keep_their_connections_from_map_to_map() {
        let (owner, guest) = (Host::new("owner", 1), Host::new("guest", 2));
        let topology = topology();
        topology.replace_map(slots(&owner));
        let [first, asked] = [topology.node(&owner), topology.node(&guest)];
        assert!(Arc::ptr_eq(&asked, &topology.node(&guest)), "each call has its own connection");
        topology.replace_map(slots(&owner));
        assert!(Arc::ptr_eq(&first, &topology.node(&owner)));
        assert!(Arc::ptr_eq(&asked, &topology.node(&guest)));
        // A guest that is given slots is the same node still.
        topology.replace_map(slots(&guest));
        let map = topology.known_map().unwrap().unwrap();
        assert!(Arc::ptr_eq(&asked, map.owner(7).unwrap()));
    }

    /// Its stranger may have moved in.
    #[test]
    fn a_node_that_refused_no_stranger_is_forgiven_when_the_map_changes() {
        let hosts = [Host::new("one", 1), Host::new("two", 2)];
        let halves = |first: &Host, last: &Host| {
            let range = |first, last, host: &Host| Range::new(first, last, host.clone());
            vec![range(0, 8_191, first), range(8_192, 16_383, last)]
        };
        let [one, two] = &hosts;
        let topology = topology();
        let shares = || topology.districts().unwrap().of(5).is_some();
        let refused = Reply::Error("FOREIGN keys".to_owned());
        let keys = ["a", "b"].map(str::to_owned).to_vec();
        let script = Script::new(String::new());
        let call = Call::spread(script, keys, "stranger".to_owned(), Args::default());
        let disappoint = || topology.owner(5).unwrap().trust().judge(&call, &refused);
        topology.replace_map(halves(one, two));
        assert!(shares());
        disappoint();
        topology.replace_map(halves(one, two));
        assert!(!shares(), "nothing has changed");
        topology.replace_map(halves(two, one));
        assert!(shares());
        disappoint();
        let known = &mut *topology.known.write().unwrap();
        let Known::Map(map) = known else { panic!("{known:?}") };
        Arc::make_mut(map).move_slot(7, one, |_| panic!("it is known"));
        assert_eq!(map.districts().of(5), Some(0));
    }

    #[test]
    fn a_guest_that_nobody_asks_for_is_forgotten() {
        let (owner, guest) = (Host::new("owner", 1), Host::new("guest", 2));
        let topology = topology();
        topology.replace_map(slots(&owner));
        let asked = Arc::downgrade(&topology.node(&guest));
        topology.replace_map(slots(&owner));
        assert!(asked.upgrade().is_some());
        topology.replace_map(slots(&owner));
        assert!(asked.upgrade().is_none());
    }
}

//! A Redis cluster of masters without replicas.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::gossip::{claim, settle};
use super::slots::{SLOTS, SlotMove};
use super::{Redis, RedisBuilder};
use crate::certificates::Certificates;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::proxy::FaultProxy;
use crate::resp::{Client, Reply};
use crate::wait::until_ok;

/// A master accepts commands no sooner than 2 seconds after its start.
const FORMING: Duration = Duration::from_secs(60);

/// Masters that share the slots evenly, in order.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
    ids: Vec<String>,
    /// Slots that have moved since all messages of the nodes were known to have arrived.
    unsettled: Mutex<BTreeSet<u16>>,
    certificates: Option<Certificates>,
    // Last, so that it is removed after the nodes have ended.
    _folder: Option<Folder>,
}

impl RedisCluster {
    /// Starts masters without a password.
    ///
    /// # Errors
    /// As [`RedisBuilder::start_cluster`].
    pub fn start(masters: usize) -> Result<Self> {
        Redis::builder().start_cluster(masters)
    }

    pub(super) fn of(node: RedisBuilder, masters: usize) -> Result<Self> {
        let mut node = node.in_cluster();
        let folder = node.has_tls().then(|| Folder::new("cluster")).transpose()?;
        let certificates = folder.as_ref().map(|folder| Certificates::generate(folder.path()));
        let certificates = certificates.transpose()?;
        if let Some(certificates) = &certificates {
            node = node.tls_among(certificates.clone());
        }
        let nodes = (0..masters).map(|_| node.clone().start()).collect::<Result<Vec<_>>>()?;
        let mut clients = nodes.iter().map(Redis::client).collect::<Result<Vec<_>>>()?;
        let ids = clients.iter_mut().map(id).collect::<Result<Vec<_>>>()?;
        give_slots(&mut clients)?;
        connect(&nodes, &mut clients)?;
        let unsettled = Mutex::default();
        let cluster = Self { nodes, ids, unsettled, certificates, _folder: folder };
        cluster.wait_until_whole()?;
        Ok(cluster)
    }

    /// The masters, in the order of the slots that they were given.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// The URLs of all masters.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// What a client of a cluster with TLS needs.
    #[must_use]
    pub const fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Starts a replica of a node, which is not one of [`Self::nodes`]; returns once it has a copy.
    ///
    /// # Errors
    /// When it cannot be started, or is not in step in time.
    pub fn start_replica(&self, of: usize) -> Result<Redis> {
        let (master, id) = self.node(of)?;
        let replica = master.built.clone().start()?;
        let mut client = replica.client()?;
        let bus = master.resources().nth_port(1).to_string();
        let meet = ["CLUSTER", "MEET", "127.0.0.1", &master.port().to_string(), &bus];
        client.call(&meet)?.ok()?;
        until_ok(FORMING, || client.call(&["CLUSTER", "REPLICATE", id])?.ok().map(drop))?;
        until_ok(FORMING, || {
            let reply = client.call(&["INFO", "replication"])?.ok()?;
            let text = reply.text().unwrap_or_default();
            let is_in_step = text.contains("master_link_status:up");
            is_in_step.then_some(()).ok_or_else(|| Error::new(format!("not in step: {text}")))
        })?;
        // The other masters elect it: they have to know it, and whose replica it is.
        for node in &self.nodes {
            until_ok(FORMING, || {
                let reply = node.client()?.call(&["CLUSTER", "REPLICAS", id])?.ok()?;
                match reply.elements() {
                    [] => Err(Error::new("a node does not know the replica")),
                    _ => Ok(()),
                }
            })?;
        }
        Ok(replica)
    }

    /// Kills a node, and waits until its replica is a master.
    ///
    /// # Errors
    /// When it is none in time.
    pub fn fail_over(&self, node: usize, replica: &Redis) -> Result<()> {
        self.node(node)?.0.kill()?;
        until_ok(FORMING, || {
            let reply = replica.client()?.call(&["ROLE"])?.ok()?;
            match reply.elements().first().and_then(Reply::text) {
                Some("master") => Ok(()),
                other => Err(Error::new(format!("the replica is {other:?}"))),
            }
        })
    }

    /// Waits until every node reports that all slots are served by the other masters: after a
    /// restart, for example.
    ///
    /// # Errors
    /// When they do not in time, or a node does not answer.
    pub fn wait_until_whole(&self) -> Result<()> {
        self.wait_for("ok")
    }

    /// Waits until every running node reports that the cluster is down: after a node was killed,
    /// for example.
    ///
    /// # Errors
    /// When they do not in time.
    pub fn wait_until_broken(&self) -> Result<()> {
        self.wait_for("fail")
    }

    /// The node that serves a slot, once all nodes that run agree about it.
    ///
    /// # Errors
    /// When no node serves it, a node does not answer, or they do not agree in time.
    pub fn owner(&self, slot: u16) -> Result<usize> {
        until_ok(FORMING, || {
            let running = self.nodes.iter().filter(|node| node.is_running());
            let mut claims = running.map(|node| claim(node, slot)).collect::<Result<Vec<_>>>()?;
            claims.dedup();
            let [Some(agreed)] = claims.as_slice() else {
                return Err(Error::new(format!(
                    "slot {slot} is unassigned or disputed: {claims:?}"
                )));
            };
            let position = self.ids.iter().position(|id| *id == agreed.owner);
            position.ok_or_else(|| Error::new(format!("slot {slot} belongs to an unknown node")))
        })
    }

    /// The node that serves a key.
    ///
    /// # Errors
    /// As [`Self::owner`].
    pub fn owner_of_key(&self, key: &str) -> Result<usize> {
        self.owner(self.slot_of_key(key)?)
    }

    /// The slot of a key.
    ///
    /// # Errors
    /// When no node answers.
    pub fn slot_of_key(&self, key: &str) -> Result<u16> {
        let node = self.nodes.first().ok_or_else(|| Error::new("a cluster without nodes"))?;
        let slot = node.client()?.call(&["CLUSTER", "KEYSLOT", key])?.ok()?.integer();
        let slot = slot.and_then(|slot| u16::try_from(slot).ok());
        slot.ok_or_else(|| Error::new("CLUSTER KEYSLOT did not answer a slot"))
    }

    /// Puts a proxy in front of every node, and makes the nodes redirect clients to the proxies.
    /// The nodes connect to each other directly.
    ///
    /// # Errors
    /// When a node does not answer, or they do not agree in time.
    pub fn behind_proxies(&self) -> Result<Vec<FaultProxy>> {
        let proxies = self.nodes.iter().map(|node| FaultProxy::to(node.addr()));
        let proxies = proxies.collect::<Result<Vec<_>>>()?;
        for (node, proxy) in self.nodes.iter().zip(&proxies) {
            let command = ["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()];
            node.client()?.call(&command)?.ok()?;
        }
        for node in &self.nodes {
            until_ok(FORMING, || {
                let reply = node.client()?.call(&["CLUSTER", "NODES"])?.ok()?;
                let text = reply.text().unwrap_or_default();
                let is_known = |proxy: &FaultProxy| text.contains(&format!(":{}@", proxy.port()));
                let all = proxies.iter().all(is_known);
                all.then_some(()).ok_or_else(|| Error::new(format!("not all proxies: {text}")))
            })?;
        }
        Ok(proxies)
    }

    /// Begins to move a slot to another node, so that a test can check each stage: the source
    /// answers `ASK` for keys that have moved.
    ///
    /// For a slot that has moved before, this waits until all messages about that have arrived.
    /// Otherwise Redis 7.0 may give it back to an earlier owner because of a late message, and
    /// delete its keys, which a test would mistake for a defect of the store.
    ///
    /// # Errors
    /// When no node serves the slot, or a node does not answer.
    pub fn begin_move(&self, slot: u16, to: usize) -> Result<SlotMove<'_>> {
        SlotMove::begin(self, slot, to)
    }

    /// Moves slots with their keys to another node, one after the other, while clients work. Moving
    /// a slot again takes seconds longer: see [`Self::begin_move`].
    ///
    /// # Errors
    /// As [`Self::begin_move`].
    pub fn move_slots(&self, slots: impl IntoIterator<Item = u16>, to: usize) -> Result<()> {
        for slot in slots {
            if self.owner(slot)? == to {
                continue;
            }
            let mut moving = self.begin_move(slot, to)?;
            while moving.move_keys(100)? > 0 {}
            moving.finish()?;
        }
        Ok(())
    }

    pub(super) fn node(&self, index: usize) -> Result<(&Redis, &str)> {
        let found = self.nodes.get(index).zip(self.ids.get(index).map(String::as_str));
        found.ok_or_else(|| Error::new(format!("the cluster has no node {index}")))
    }

    /// Waits, if this slot has moved before, until all messages of its earlier owners have arrived.
    pub(super) fn before_move(&self, slot: u16) -> Result<()> {
        if !self.unsettled().contains(&slot) {
            return Ok(());
        }
        settle(&self.nodes)?;
        self.unsettled().clear();
        Ok(())
    }

    /// Waits until all running nodes have the new owner of a slot.
    pub(super) fn after_move(&self, slot: u16, to: usize) -> Result<()> {
        self.unsettled().insert(slot);
        until_ok(FORMING, || match self.owner(slot)? {
            owner if owner == to => Ok(()),
            other => Err(Error::new(format!("slot {slot} is still served by node {other}"))),
        })
    }

    fn unsettled(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, state: &str) -> Result<()> {
        let state = format!("cluster_state:{state}");
        let known = format!("cluster_known_nodes:{}", self.nodes.len());
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            until_ok(FORMING, || {
                let reply = node.client()?.call(&["CLUSTER", "INFO"])?.ok()?;
                let text = reply.text().unwrap_or_default();
                if text.contains(&state) && text.contains(&known) {
                    return Ok(());
                }
                Err(Error::new(format!("a node waits for {state}: {text}")))
            })?;
        }
        Ok(())
    }
}

fn id(client: &mut Client) -> Result<String> {
    let reply = client.call(&["CLUSTER", "MYID"])?.ok()?;
    reply.text().map(str::to_owned).ok_or_else(|| Error::new("CLUSTER MYID did not answer an id"))
}

/// Distributes the slots; distinct epochs prevent disputes.
fn give_slots(clients: &mut [Client]) -> Result<()> {
    let count = clients.len();
    for (index, client) in clients.iter_mut().enumerate() {
        let bound = |index: usize| usize::from(SLOTS) * index / count;
        let (first, last) = (bound(index).to_string(), (bound(index + 1) - 1).to_string());
        client.call(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?.ok()?;
        client.call(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?.ok()?;
    }
    Ok(())
}

/// Connects every node to the first; gossip connects the others.
fn connect(nodes: &[Redis], clients: &mut [Client]) -> Result<()> {
    let Some(first) = nodes.first() else {
        return Ok(());
    };
    let (port, bus) = (first.port().to_string(), first.resources().nth_port(1).to_string());
    for client in clients.iter_mut().skip(1) {
        client.call(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?.ok()?;
    }
    Ok(())
}

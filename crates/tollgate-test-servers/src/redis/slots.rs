//! Moves a slot between nodes of a cluster in the steps that the server's own tools take, so that a
//! test can do its work between any two of them.

use super::cluster::RedisCluster;
use crate::error::{Error, Result};
use crate::resp::{Client, Reply};

/// How many slots a cluster has.
pub(super) const SLOTS: u16 = 16_384;
const TIMEOUT_MS: &str = "5000";

/// A slot that is being moved. Until it is finished, the source serves the keys that it still has
/// and answers `ASK` for the others; the target serves them after `ASKING`.
#[derive(Debug)]
pub struct SlotMove<'c> {
    cluster: &'c RedisCluster,
    slot: u16,
    from: usize,
    to: usize,
    source: Client,
}

impl<'c> SlotMove<'c> {
    pub(super) fn begin(cluster: &'c RedisCluster, slot: u16, to: usize) -> Result<Self> {
        cluster.before_move(slot)?;
        let from = cluster.owner(slot)?;
        let (source, source_id) = cluster.node(from)?;
        let (target, target_id) = cluster.node(to)?;
        if from == to {
            return Err(Error::new(format!("slot {slot} is on that node already")));
        }
        let text = slot.to_string();
        let (mut source, mut target) = (source.client()?, target.client()?);
        // The target first, or it would send clients back to the source.
        target.call(&["CLUSTER", "SETSLOT", &text, "IMPORTING", source_id])?.ok()?;
        source.call(&["CLUSTER", "SETSLOT", &text, "MIGRATING", target_id])?.ok()?;
        Ok(Self { cluster, slot, from, to, source })
    }

    /// Moves up to `count` keys, and returns their number; 0 once the source has none.
    ///
    /// # Errors
    /// When a node does not answer or refuses.
    pub fn move_keys(&mut self, count: usize) -> Result<usize> {
        let (slot, count) = (self.slot.to_string(), count.to_string());
        let listed = ["CLUSTER", "GETKEYSINSLOT", &slot, &count];
        let keys = self.source.call(&listed)?.ok()?;
        let keys: Vec<&[u8]> = keys.elements().iter().filter_map(bytes).collect();
        if keys.is_empty() {
            return Ok(0);
        }
        let (target, _) = self.cluster.node(self.to)?;
        let port = target.port().to_string();
        let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", TIMEOUT_MS];
        if let Some(password) = target.password() {
            command.extend(["AUTH", password]);
        }
        command.push("KEYS");
        let command = command.into_iter().map(str::as_bytes).chain(keys.iter().copied());
        self.source.call(&command.collect::<Vec<_>>())?.ok()?;
        Ok(keys.len())
    }

    /// Makes the target the owner on every running node; returns once they agree.
    ///
    /// # Errors
    /// When a node does not answer, the source still has keys, or they do not agree in time.
    pub fn finish(self) -> Result<()> {
        let (_, new_owner) = self.cluster.node(self.to)?;
        let slot = self.slot.to_string();
        // The target first: else the slot would be unassigned for a moment.
        let others =
            (0..self.cluster.nodes().len()).filter(|at| ![self.from, self.to].contains(at));
        for index in [self.to, self.from].into_iter().chain(others) {
            let (node, _) = self.cluster.node(index)?;
            if node.is_running() {
                let command = ["CLUSTER", "SETSLOT", &slot, "NODE", new_owner];
                node.client()?.call(&command)?.ok()?;
            }
        }
        self.cluster.after_move(self.slot, self.to)
    }
}

fn bytes(reply: &Reply) -> Option<&[u8]> {
    match reply {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

//! The gossip of the nodes of a cluster: the owner of a slot in the view of each node, and whether
//! all messages have arrived.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Redis;
use crate::error::{Error, Result};
use crate::wait::until_ok;

/// Nodes ping each other about once a second.
const ROUND: Duration = Duration::from_secs(30);
/// A pong proves that the messages before its ping have arrived. The first may answer an earlier
/// ping, and one more may be an announcement without a ping.
const ROUNDS: usize = 3;

/// The owner of a slot in the view of a node, and its epoch. Nodes that agree about the owner alone
/// may still change it: a node that missed the new epoch accepts a late message of the old owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) owner: String,
    epoch: String,
}

pub(super) fn claim(node: &Redis, slot: u16) -> Result<Option<Claim>> {
    let reply = node.client()?.call(&["CLUSTER", "NODES"])?.ok()?;
    Ok(reply.text().unwrap_or_default().lines().find_map(|line| {
        // <id> <address> <flags> <master> <ping> <pong> <epoch> <link> <slots>...
        let fields: Vec<&str> = line.split(' ').collect();
        let holds = |range: &&str| {
            // One slot, or from first to last; slots that are being moved are in brackets, and no
            // number.
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
            bounds.is_some_and(|(first, last)| (first..=last).contains(&slot))
        };
        fields.iter().skip(8).find(|range| holds(range))?;
        let (owner, epoch) = fields.first().zip(fields.get(6))?;
        Some(Claim { owner: (*owner).to_owned(), epoch: (*epoch).to_owned() })
    }))
}

/// Waits until all messages that nodes have sent so far have arrived.
///
/// Redis 7.0 marks a slot whose owner has stopped claiming it, and does not remove the mark when
/// the slot is given to another by command. A node that claims a marked slot gets it, whatever the
/// epochs are, and the node that loses it deletes its keys. A claim of the new owner removes the
/// mark.
pub(super) fn settle(nodes: &[Redis]) -> Result<()> {
    for _ in 0..ROUNDS {
        let before = last_messages(nodes)?;
        until_ok(ROUND, || {
            let now = last_messages(nodes)?;
            let is_new =
                |(pair, at): (&(u16, String), &u64)| now.get(pair).is_some_and(|now| now > at);
            let all = before.iter().all(is_new);
            all.then_some(())
                .ok_or_else(|| Error::new("nodes have received no message from each other"))
        })?;
    }
    Ok(())
}

/// When each running node has last received a message from each other one, by its own clock.
fn last_messages(nodes: &[Redis]) -> Result<BTreeMap<(u16, String), u64>> {
    let mut received = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.is_running()) {
        let reply = node.client()?.call(&["CLUSTER", "NODES"])?.ok()?;
        for line in reply.text().unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [id, _, flags, _, _, pong, ..] = fields.as_slice() else {
                continue;
            };
            // A node that is down sends nothing, and a node sends itself nothing.
            if !flags.contains("myself") && !flags.contains("fail") {
                received.insert((node.port(), (*id).to_owned()), pong.parse().unwrap_or_default());
            }
        }
    }
    Ok(received)
}

//! What the nodes of a cluster tell each other: who owns a slot in the eyes of each, and whether
//! everything that was said has been heard.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Redis;
use crate::error::{Error, Result};
use crate::wait::until_ok;

/// Nodes greet each other about once a second.
const ROUND: Duration = Duration::from_secs(30);
/// An answer proves that what was sent before its question has been heard. The first may answer a
/// question of before, and one more may be no answer at all but an announcement.
const ROUNDS: usize = 3;

/// Who owns a slot in the eyes of a node, and since which epoch. Nodes that agree about the owner alone
/// may still change their minds: to one that has missed the owner's epoch, a late word of the owner
/// before counts for more.
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
            // Alone, or from first to last; slots on their way stand in brackets, and are no number.
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
            bounds.is_some_and(|(first, last)| (first..=last).contains(&slot))
        };
        fields.iter().skip(8).find(|range| holds(range))?;
        let (owner, epoch) = fields.first().zip(fields.get(6))?;
        Some(Claim { owner: (*owner).to_owned(), epoch: (*epoch).to_owned() })
    }))
}

/// Waits until nothing that nodes have said so far is still on its way.
///
/// Redis 7.0 marks a slot whose owner has stopped claiming it, and does not remove the mark when the slot
/// is given to another by command. Whoever claims a marked slot gets it, whatever the epochs say; and
/// the one who loses it so deletes its keys. Hearing the new owner removes the mark.
pub(super) fn settle(nodes: &[Redis]) -> Result<()> {
    for _ in 0..ROUNDS {
        let before = heard(nodes)?;
        until_ok(ROUND, || {
            let now = heard(nodes)?;
            let is_new =
                |(pair, at): (&(u16, String), &u64)| now.get(pair).is_some_and(|now| now > at);
            let all = before.iter().all(is_new);
            all.then_some(()).ok_or_else(|| Error::new("nodes have not heard from each other"))
        })?;
    }
    Ok(())
}

/// When each node that runs has last heard from each other one, by its own clock.
fn heard(nodes: &[Redis]) -> Result<BTreeMap<(u16, String), u64>> {
    let mut heard = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.is_running()) {
        let reply = node.client()?.call(&["CLUSTER", "NODES"])?.ok()?;
        for line in reply.text().unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [id, _, flags, _, _, pong, ..] = fields.as_slice() else {
                continue;
            };
            // One that is down says nothing, and oneself has nothing to hear.
            if !flags.contains("myself") && !flags.contains("fail") {
                heard.insert((node.port(), (*id).to_owned()), pong.parse().unwrap_or_default());
            }
        }
    }
    Ok(heard)
}

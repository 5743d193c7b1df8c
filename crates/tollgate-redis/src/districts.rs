//! Slots that one node of a cluster serves: keys of all of them may share a call.
//!
//! Redis wants the declared keys of a script in one slot. Keys that a script only comes across may lie in
//! any slot that the node serves: the node looks at each command, and refuses those for keys of
//! other nodes. So a call for many keys declares the first, and brings the others as arguments.
//!
//! All rests on that refusal: a server that ran such a command would keep a counter where nobody else looks
//! for it. So no node is believed before it has been seen to refuse a key of another node, a
//! *stranger*, in the same script, before anything is charged. One that does not gets calls for
//! one slot only.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::Arc;

use crate::call::Call;
use crate::meaning::is_foreign;
use crate::slot::slot_of_tag;
use crate::transport::Reply;

/// So many tags are tried for one that another node serves. A node that serves nearly all slots goes
/// without.
const TAGS_MAX: u32 = 1_024;

/// What is known of a node.
#[derive(Debug, Default)]
pub struct Trust(AtomicU8);

const UNPROVEN: u8 = 0;
const PROVEN: u8 = 1;
const REFUSED: u8 = 2;

impl Trust {
    /// Whether the node may get this call: one that has refused no stranger yet has to show that it does.
    #[must_use]
    pub fn allows(&self, call: &Call) -> bool {
        !call.is_spread() || call.has_stranger() || self.0.load(Relaxed) == PROVEN
    }

    /// Learns from what the node has answered.
    pub fn judge(&self, call: &Call, reply: &Reply) {
        if !call.has_stranger() {
            return;
        }
        match reply {
            Reply::Error(text) if is_foreign(text) => self.0.store(REFUSED, Relaxed),
            Reply::Error(_) => {}
            _ => self.0.store(PROVEN, Relaxed),
        }
    }

    /// Gives a node that did not refuse a stranger another chance: the map has changed, so it may
    /// have been none.
    pub fn forgive(&self) {
        let _ = self.0.compare_exchange(REFUSED, UNPROVEN, Relaxed, Relaxed);
    }
}

/// Which slots are served by one node.
#[derive(Debug)]
pub struct Districts {
    /// The first slot of each run that one node serves, and the number of the node.
    runs: Vec<(u16, u16)>,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    trust: Arc<Trust>,
    /// The tag of keys that another node serves.
    stranger: Option<String>,
}

impl Districts {
    /// Of runs of slots: the first of each, in order, and the number of the node that serves it. A number
    /// without trust is nobody.
    #[must_use]
    pub fn new(runs: Vec<(u16, u16)>, trusts: Vec<Arc<Trust>>) -> Self {
        let count = trusts.len();
        let stranger_of = |number: u16| {
            let is_foreign = |tag: &String| {
                let node = node_of(&runs, slot_of_tag(tag.as_bytes()));
                node.is_some_and(|node| node != number && usize::from(node) < count)
            };
            (0..TAGS_MAX).map(|tag| tag.to_string()).find(is_foreign)
        };
        let nodes = (0..).zip(trusts);
        let nodes = nodes.map(|(number, trust)| Node { trust, stranger: stranger_of(number) });
        Self { nodes: nodes.collect(), runs }
    }

    /// The district of a slot, if its keys may share a call with those of other slots.
    #[must_use]
    pub fn of(&self, slot: u16) -> Option<u16> {
        let number = self.node_of(slot)?;
        let node = self.nodes.get(usize::from(number))?;
        let is_trusted = node.stranger.is_some() && node.trust.0.load(Relaxed) != REFUSED;
        is_trusted.then_some(number)
    }

    /// The number of the node that serves a slot, whether it is trusted or not.
    pub(crate) fn node_of(&self, slot: u16) -> Option<u16> {
        node_of(&self.runs, slot)
    }

    /// The first slot of each run that one node serves, and the number of the node.
    pub(crate) fn runs(&self) -> &[(u16, u16)] {
        &self.runs
    }

    /// The tag of a key that the node of this district has to refuse before it is believed; none
    /// if it has.
    pub(crate) fn stranger(&self, district: u16) -> Option<&str> {
        let node = self.nodes.get(usize::from(district))?;
        node.stranger.as_deref().filter(|_| node.trust.0.load(Relaxed) != PROVEN)
    }
}

fn node_of(runs: &[(u16, u16)], slot: u16) -> Option<u16> {
    let following = runs.partition_point(|(first, _)| *first <= slot);
    runs.get(following.checked_sub(1)?).map(|(_, node)| *node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Script;
    use crate::transport::Args;

    fn halves() -> Districts {
        Districts::new(vec![(0, 0), (8_192, 1)], vec![Arc::default(), Arc::default()])
    }

    fn call(stranger: &str) -> Call {
        let keys = ["a", "b"].map(str::to_owned).to_vec();
        Call::spread(Script::new(String::new()), keys, stranger.to_owned(), Args::default())
    }

    fn refuses(districts: &Districts, district: usize, has_refused: bool) {
        let foreign = || Reply::Error("FOREIGN keys".to_owned());
        let reply = if has_refused { Reply::Nil } else { foreign() };
        districts.nodes[district].trust.judge(&call("x"), &reply);
    }

    #[test]
    fn a_stranger_lives_elsewhere() {
        let districts = halves();
        for district in [0, 1] {
            let stranger = slot_of_tag(districts.stranger(district).unwrap().as_bytes());
            assert_eq!(districts.of(stranger), Some(1 - district));
        }
    }

    #[test]
    fn a_node_is_believed_once_it_has_refused_a_stranger() {
        let districts = halves();
        let [first, second] = [&districts.nodes[0].trust, &districts.nodes[1].trust];
        assert!(first.allows(&call("x")) && !first.allows(&call("")));
        // What says nothing of a stranger.
        first.judge(&call(""), &Reply::Nil);
        first.judge(&call("x"), &Reply::Error("LOADING".to_owned()));
        assert!(!first.allows(&call("")));
        refuses(&districts, 0, true);
        assert!(first.allows(&call("")) && !second.allows(&call("")));
        assert_eq!((districts.of(5), districts.stranger(0)), (Some(0), None));
        assert!(districts.stranger(1).is_some());
    }

    #[test]
    fn a_node_that_refuses_nobody_shares_nothing_until_it_is_forgiven() {
        let districts = halves();
        refuses(&districts, 1, false);
        assert_eq!((districts.of(5), districts.of(9_000)), (Some(0), None));
        districts.nodes[1].trust.forgive();
        assert_eq!(districts.of(9_000), Some(1));
        assert!(districts.stranger(1).is_some());
    }

    #[test]
    fn without_anybody_else_there_is_no_stranger_and_no_sharing() {
        let alone = Districts::new(vec![(0, 0)], vec![Arc::default()]);
        assert_eq!(alone.of(5), None);
        // Slots that nobody serves are no other node's.
        let gap = Districts::new(vec![(100, 0), (8_192, u16::MAX)], vec![Arc::default()]);
        assert_eq!([gap.of(5), gap.of(200), gap.of(9_000)], [None; 3]);
        let runs = vec![(0, 0), (100, u16::MAX), (16_000, 1)];
        let few = Districts::new(runs, vec![Arc::default(), Arc::default()]);
        let stranger = slot_of_tag(few.stranger(0).unwrap().as_bytes());
        assert_eq!(few.of(stranger), Some(1));
    }
}

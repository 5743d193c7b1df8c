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

use crate::slot::slot_of_tag;

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
    pub fn new(runs: Vec<(u16, u16)>, trusts: impl IntoIterator<Item = Arc<Trust>>) -> Self {
        let mut districts = Self { runs, nodes: Vec::new() };
        let nodes = (0..).zip(trusts).map(|(number, trust)| {
            let is_foreign = |tag: &String| {
                districts.node_of(slot_of_tag(tag.as_bytes())).is_some_and(|node| node != number)
            };
            let stranger = (0..TAGS_MAX).map(|tag| tag.to_string()).find(is_foreign);
            Node { trust, stranger }
        });
        districts.nodes = nodes.collect();
        districts
    }

    /// The district of a slot, if its keys may share a call with those of other slots.
    #[must_use]
    pub fn of(&self, slot: u16) -> Option<u16> {
        let number = self.node_of(slot)?;
        let node = self.nodes.get(usize::from(number))?;
        let is_trusted = node.stranger.is_some() && node.trust.0.load(Relaxed) != REFUSED;
        is_trusted.then_some(number)
    }

    /// The tag of a key that the node of this district has to refuse before it is believed; none
    /// if it has.
    pub(crate) fn stranger(&self, district: u16) -> Option<&str> {
        let node = self.nodes.get(usize::from(district))?;
        node.stranger.as_deref().filter(|_| node.trust.0.load(Relaxed) != PROVEN)
    }

    /// The node has refused a stranger, or has not.
    pub(crate) fn tell(&self, district: u16, has_refused: bool) {
        if let Some(node) = self.nodes.get(usize::from(district)) {
            node.trust.0.store(if has_refused { PROVEN } else { REFUSED }, Relaxed);
        }
    }

    fn node_of(&self, slot: u16) -> Option<u16> {
        let following = self.runs.partition_point(|(first, _)| *first <= slot);
        self.runs.get(following.checked_sub(1)?).map(|(_, node)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves() -> Districts {
        Districts::new(vec![(0, 0), (8_192, 1)], [(); 2].map(|()| Arc::default()))
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
        districts.tell(0, true);
        assert_eq!((districts.of(5), districts.stranger(0)), (Some(0), None));
        assert!(districts.stranger(1).is_some());
    }

    #[test]
    fn a_node_that_refuses_nobody_shares_nothing_until_it_is_forgiven() {
        let districts = halves();
        districts.tell(1, false);
        assert_eq!((districts.of(5), districts.of(9_000)), (Some(0), None));
        districts.nodes[1].trust.forgive();
        assert_eq!(districts.of(9_000), Some(1));
        assert!(districts.stranger(1).is_some());
    }

    #[test]
    fn without_anybody_else_there_is_no_stranger_and_no_sharing() {
        let alone = Districts::new(vec![(0, 0)], [Arc::default()]);
        assert_eq!(alone.of(5), None);
        let gap = Districts::new(vec![(100, 0), (8_192, u16::MAX)], [Arc::default()]);
        assert_eq!([gap.of(5), gap.of(9_000)], [None, None]);
    }
}

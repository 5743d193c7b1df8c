//! Which node serves which slot.

use std::sync::Arc;

use tollgate_core::{Code, Error, Result};

use crate::client::host::Host;
use crate::client::node::Node;
use crate::slot::SLOTS;
use crate::transport::Reply;

/// No node serves the slot.
const UNSERVED: u16 = u16::MAX;

/// The nodes, and the one that serves each slot.
#[derive(Clone, Debug)]
pub(super) struct Map {
    nodes: Vec<Arc<Node>>,
    /// Positions in `nodes`, one for each slot.
    owners: Vec<u16>,
    /// Nodes that serve no slot yet but are asked for keys that have moved there, and those of the
    /// map before.
    unmapped: Vec<Arc<Node>>,
    unmapped_before: Vec<Arc<Node>>,
}

/// Slots that one node serves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: Host,
}

impl Map {
    /// A map of these ranges. `node` finds or makes the node at a host.
    pub(super) fn new(ranges: Vec<Range>, node: impl Fn(&Host) -> Arc<Node>) -> Self {
        let owners = vec![UNSERVED; usize::from(SLOTS)];
        let (nodes, unmapped, unmapped_before) = Default::default();
        let mut map = Self { nodes, owners, unmapped, unmapped_before };
        for range in ranges {
            let position = map.position(&range.host, &node);
            let slots = usize::from(range.first)..=usize::from(range.last);
            map.owners.get_mut(slots).unwrap_or_default().fill(position);
        }
        map
    }

    /// The node that serves a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(*self.owners.get(usize::from(slot))?))
    }

    /// The node at a host, if it is known at all.
    pub(super) fn at(&self, host: &Host) -> Option<&Arc<Node>> {
        self.nodes.iter().chain(&self.unmapped).find(|node| node.is_at(host))
    }

    /// The nodes that serve slots.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// All nodes to which there may be connections.
    pub(super) fn all_nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.iter().chain(&self.unmapped).chain(&self.unmapped_before)
    }

    /// The node at a host, which need not serve any slot yet.
    pub(super) fn node_at(&mut self, host: &Host, node: impl Fn(&Host) -> Arc<Node>) -> Arc<Node> {
        if let Some(node) = self.at(host) {
            return Arc::clone(node);
        }
        let before = self.unmapped_before.iter().find(|node| node.is_at(host)).map(Arc::clone);
        let unmapped = before.unwrap_or_else(|| node(host));
        self.unmapped.push(Arc::clone(&unmapped));
        unmapped
    }

    /// Keeps the unmapped nodes of the map before. One that no redirect names during one map is
    /// forgotten.
    pub(super) fn succeed(mut self, before: &Self) -> Self {
        self.unmapped_before = before.unmapped.clone();
        self
    }

    /// Another node serves a slot now.
    pub(super) fn move_slot(&mut self, slot: u16, host: &Host, node: impl Fn(&Host) -> Arc<Node>) {
        let position = self.position(host, &node);
        if let Some(owner) = self.owners.get_mut(usize::from(slot)) {
            *owner = position;
        }
    }

    fn position(&mut self, host: &Host, node: &impl Fn(&Host) -> Arc<Node>) -> u16 {
        let known = self.nodes.iter().position(|node| node.is_at(host));
        let position = known.unwrap_or_else(|| {
            let unmapped = self.all_nodes().find(|node| node.is_at(host)).map(Arc::clone);
            self.nodes.push(unmapped.unwrap_or_else(|| node(host)));
            self.nodes.len() - 1
        });
        // There are fewer nodes than slots, and fewer slots than this.
        u16::try_from(position).unwrap_or(UNSERVED)
    }
}

/// Reads the answer to `CLUSTER SLOTS` by the node at `asked`.
///
/// # Errors
/// When it is none, or when no node serves any slot.
pub(super) fn ranges(reply: Reply, asked: &Host) -> Result<Vec<Range>> {
    let wrong = || {
        let message = format!("{asked} knows of no cluster; one server alone is redis://");
        Error::new(Code::StoreUnavailable, message).not_sent()
    };
    if matches!(&reply, Reply::Error(text) if text.contains("cluster support disabled")) {
        return Err(wrong());
    }
    let Reply::List(rows) = reply.ok()? else { return Err(wrong()) };
    let ranges: Vec<Range> = rows.iter().filter_map(|row| range(row, asked)).collect();
    if ranges.is_empty() { Err(wrong()) } else { Ok(ranges) }
}

fn range(row: &Reply, asked: &Host) -> Option<Range> {
    let Reply::List(parts) = row else { return None };
    let [Reply::Integer(first), Reply::Integer(last), Reply::List(master), ..] = parts.as_slice()
    else {
        return None;
    };
    let slot = |number: &i64| u16::try_from(*number).ok().filter(|slot| *slot < SLOTS);
    let (first, last) = slot(first).zip(slot(last)).filter(|(first, last)| first <= last)?;
    let [name, Reply::Integer(port), ..] = master.as_slice() else { return None };
    let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
    let name = match name {
        Reply::Text(name) => core::str::from_utf8(name).ok()?,
        // A node without a name of its own is where it was asked.
        Reply::Nil => "",
        _ => return None,
    };
    let name = if matches!(name, "" | "?") { asked.name() } else { name };
    Some(Range { first, last, host: Host::new(name, port) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: Reply, port: i64) -> Reply {
        Reply::List(vec![name, Reply::Integer(port), Reply::Text(b"id".to_vec())])
    }

    fn row(first: i64, last: i64, master: Reply) -> Reply {
        Reply::List(vec![Reply::Integer(first), Reply::Integer(last), master])
    }

    #[test]
    fn rows_that_make_no_sense_are_left_out() {
        let name = || Reply::Text(b"a".to_vec());
        let rows = vec![
            row(0, 5, node(name(), 1)),
            row(6, 9, node(Reply::Nil, 2)),
            row(-1, 5, node(name(), 1)),
            row(0, 16_384, node(name(), 1)),
            row(9, 8, node(name(), 1)),
            row(0, 1, node(name(), 0)),
            row(0, 1, Reply::Nil),
            Reply::Integer(1),
        ];
        let asked = Host::new("asked", 9);
        let read = ranges(Reply::List(rows), &asked).unwrap();
        let expected = [
            Range { first: 0, last: 5, host: Host::new("a", 1) },
            Range { first: 6, last: 9, host: Host::new("asked", 2) },
        ];
        assert_eq!(read, expected);
        for reply in [Reply::Nil, Reply::List(vec![]), Reply::Error("ERR no".to_owned())] {
            assert!(ranges(reply, &asked).is_err());
        }
    }
}

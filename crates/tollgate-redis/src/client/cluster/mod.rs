//! A cluster: each call goes to the node that serves its slot, and follows redirects.
//!
//! A node that redirects has not run the call, so sending it on is safe; how often is bounded.
//! Calls that are sent together are grouped by node: one round trip for each node, all at the same
//! time. `TRYAGAIN` is a reply like any other: the store decides whether to repeat a call.

mod map;
mod numbers;
mod redirect;
mod topology;

use core::future::{Future as _, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::sync::Arc;

use tollgate_core::store::{Endpoint, LastAnswer};
use tollgate_core::{Code, Error, Result};

use super::driver::cannot_serve;
use super::host::Host;
use super::node::{Node, Step};
use super::settings::Settings;
use crate::transport::{Call, Reply};
use map::Map;
use redirect::Redirect;
use topology::Topology;

/// How often a call is redirected before its redirect is its reply.
const REDIRECTS_MAX: usize = 8;

/// The nodes of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    topology: Arc<Topology>,
}

/// Where a call is sent.
struct Route {
    /// Which call.
    index: usize,
    node: Arc<Node>,
    /// Whether the slot has not arrived at the node in full.
    is_asking: bool,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Host>, settings: Arc<Settings>) -> Self {
        Self { topology: Topology::new(seeds, settings) }
    }

    /// Sends one call.
    pub(super) async fn send(&self, call: &Call) -> Result<Reply> {
        let mut reply = Err(unserved());
        self.send_all(core::slice::from_ref(call), |_, received| reply = received).await;
        reply
    }

    /// Sends calls in one round trip for each node; those that are redirected in more.
    pub(super) async fn send_all(
        &self,
        calls: &[Call],
        mut replied: impl FnMut(usize, Result<Reply>),
    ) {
        let map = match self.topology.map().await {
            Ok(map) => map,
            Err(error) => {
                return (0..calls.len()).for_each(|index| replied(index, Err(error.clone())));
            }
        };
        let mut routes = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            match self.owner_in(&map, call.slot()) {
                Some(node) => routes.push(Route { index, node, is_asking: false }),
                None => replied(index, Err(unserved())),
            }
        }
        for redirects in 0..=REDIRECTS_MAX {
            routes = self.send_along(routes, calls, redirects < REDIRECTS_MAX, &mut replied).await;
            if routes.is_empty() {
                return;
            }
        }
    }

    /// Sends calls along their routes, and hands over the replies of each node as soon as they are
    /// there; returns the routes of calls that were redirected, if they may be.
    async fn send_along(
        &self,
        routes: Vec<Route>,
        calls: &[Call],
        may_redirect: bool,
        replied: &mut impl FnMut(usize, Result<Reply>),
    ) -> Vec<Route> {
        // All are queued before the first is waited for.
        let mut queued: Vec<_> = by_node(routes)
            .into_iter()
            .map(|(node, routes)| (node.send_all(steps(calls, &routes).into_iter()), routes))
            .collect();
        let mut redirected = Vec::new();
        let mut receive = |received: Vec<Result<Reply>>, routes: &[Route]| {
            let mut received = received.into_iter();
            for route in routes {
                if route.is_asking {
                    // The reply to ASKING itself.
                    received.next();
                }
                let reply = received.next().unwrap_or_else(|| Err(unserved()));
                match self.redirect(route, &reply).filter(|_| may_redirect) {
                    Some(route) => redirected.push(route),
                    None => replied(route.index, reply),
                }
            }
        };
        poll_fn(|cx| {
            queued.retain_mut(|(pending, routes)| match Pin::new(pending).poll(cx) {
                Poll::Ready(received) => {
                    receive(received, routes);
                    false
                }
                Poll::Pending => true,
            });
            if queued.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        redirected
    }

    /// Where a call goes after this reply, if it was redirected.
    fn redirect(&self, route: &Route, reply: &Result<Reply>) -> Option<Route> {
        let text = match reply {
            Ok(Reply::Error(text)) => text,
            Ok(_) => return None,
            Err(_) => {
                self.topology.refresh();
                return None;
            }
        };
        if cannot_serve(text) {
            self.topology.refresh();
        }
        let (node, is_asking) = match Redirect::of(text, route.node.target().host())? {
            Redirect::Moved { slot, host } => (self.topology.moved(slot, &host), false),
            Redirect::Ask { host } => (self.topology.node(&host), true),
        };
        Some(Route { index: route.index, node, is_asking })
    }

    /// All nodes that serve slots.
    pub(super) async fn nodes(&self) -> Result<Vec<Arc<Node>>> {
        Ok(self.topology.map().await?.nodes().to_vec())
    }

    /// The node that serves a slot, as far as the map is known.
    pub(super) fn endpoint(&self, slot: Option<u16>) -> Endpoint {
        self.topology.endpoint(slot)
    }

    /// The last answer of the node that serves a slot, as far as the map is known.
    pub(super) fn last_answer(&self, slot: Option<u16>) -> Option<LastAnswer> {
        self.topology.last_answer(slot)
    }

    pub(super) fn close(&self) {
        self.topology.close();
    }

    fn owner_in(&self, map: &Map, slot: Option<u16>) -> Option<Arc<Node>> {
        let owner = match slot {
            Some(slot) => map.owner(slot),
            // A call without keys may run anywhere.
            None => map.nodes().first(),
        };
        if owner.is_none() {
            self.topology.refresh();
        }
        owner.map(Arc::clone)
    }
}

/// The routes to each node, in order. There are few nodes.
fn by_node(routes: Vec<Route>) -> Vec<(Arc<Node>, Vec<Route>)> {
    let mut groups: Vec<(Arc<Node>, Vec<Route>)> = Vec::new();
    for route in routes {
        match groups.iter_mut().find(|(node, _)| Arc::ptr_eq(node, &route.node)) {
            Some((_, group)) => group.push(route),
            None => groups.push((Arc::clone(&route.node), vec![route])),
        }
    }
    groups
}

fn steps<'a>(calls: &'a [Call], routes: &[Route]) -> Vec<Step<'a>> {
    let mut steps = Vec::with_capacity(routes.len());
    for route in routes {
        if route.is_asking {
            steps.push(Step::Asking);
        }
        steps.extend(calls.get(route.index).map(Step::Call));
    }
    steps
}

fn unserved() -> Error {
    Error::new(Code::StoreUnavailable, "no node of the cluster serves this key now").not_sent()
}

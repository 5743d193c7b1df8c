//! A cluster: each call goes to the node that serves its slot, and follows redirects.
//!
//! A node that redirects has not run the call, so sending it on is safe; how often is bounded. Calls
//! that are sent together are grouped by node: one round trip for each node, all at the same time.

mod following;
mod map;
mod redirect;
mod topology;

use core::future::{Future, poll_fn};
use core::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::store::patience::{is_over, last_words, note_held_up, silent};
use tollgate_core::{Code, Error, Result};

use super::backoff::Backoff;
use super::host::Host;
use super::node::{Node, Step};
use super::sending::answer;
use super::session::Session;
use super::settings::Settings;
use crate::late::in_time;
use crate::meaning::between_nodes;
use crate::slot::slot_of;
use crate::transport::{Call, Districts, Reply};
pub(super) use following::Following;
use map::Map;
use redirect::Redirect;
use topology::Topology;

/// How often a call is sent on before it fails.
const REDIRECTS_MAX: usize = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// The nodes of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    topology: Arc<Topology>,
}

/// The replies to calls, as far as they are there.
type Replies = Vec<Option<Result<Reply>>>;

/// A call on its way: which one, to which node, and whether it asks for a slot that is only coming.
struct Sent {
    index: usize,
    node: Arc<Node>,
    is_asking: bool,
}

impl Cluster {
    pub(super) fn new(seeds: Vec<Host>, settings: Arc<Settings>) -> Self {
        Self { topology: Topology::new(seeds, settings) }
    }

    /// The node that serves a call's slot, if that is known.
    pub(super) fn known_owner(&self, call: &Call) -> Option<Arc<Node>> {
        let owner = call.slot().and_then(|slot| self.topology.owner(slot));
        owner.filter(|node| node.trust().allows(call))
    }

    /// Which slots have keys that may share a call.
    pub(super) fn districts(&self) -> Option<Arc<Districts>> {
        self.topology.districts()
    }

    /// Sends one call, wherever it has to go.
    pub(super) async fn send(&self, call: &Call) -> Result<Reply> {
        let node = self.owner(call.slot()).await?;
        if !node.trust().allows(call) {
            return Ok(unproven());
        }
        let (reply, mark) = node.send(call);
        let reply = answer(reply, &node, mark).await;
        self.go_on(call, node, reply).await
    }

    /// Follows a reply that is none, if it leads anywhere.
    pub(super) async fn go_on(
        &self,
        call: &Call,
        node: Arc<Node>,
        reply: Result<Reply>,
    ) -> Result<Reply> {
        let sent = Sent { index: 0, node, is_asking: false };
        let Some(next) = self.next(call, sent, &reply) else { return reply };
        let mut replies = vec![Some(reply)];
        self.follow(core::slice::from_ref(call), vec![next], &mut replies).await;
        replies.pop().flatten().unwrap_or_else(|| Err(unserved()))
    }

    /// Sends calls in one round trip for each node.
    pub(super) async fn send_all(&self, calls: &[Call]) -> Vec<Result<Reply>> {
        let map = match self.topology.map().await {
            Ok(map) => map,
            Err(error) => return calls.iter().map(|_| Err(error.clone().not_sent())).collect(),
        };
        let mut replies: Replies = calls.iter().map(|_| None).collect();
        let mut first = Vec::with_capacity(calls.len());
        for (index, call) in calls.iter().enumerate() {
            match self.owner_in(&map, call.slot()) {
                Ok(node) if !node.trust().allows(call) => {
                    put(&mut replies, index, Ok(unproven()));
                }
                Ok(node) => first.push(Next::now(index, node)),
                Err(error) => put(&mut replies, index, Err(error)),
            }
        }
        self.follow(calls, first, &mut replies).await;
        replies.into_iter().map(|reply| reply.unwrap_or_else(|| Err(unserved()))).collect()
    }

    /// A connection of one's own, to the node that serves a key.
    pub(super) async fn session(&self, key: &str) -> Result<Session> {
        let node = self.owner(Some(slot_of(key.as_bytes()))).await?;
        self.session_at(node).await
    }

    async fn session_at(&self, node: Arc<Node>) -> Result<Session> {
        let wire = node.wire().await.inspect_err(|_| self.topology.refresh())?;
        let cluster = self.clone();
        Ok(Session::new(wire, node).told(move || cluster.topology.refresh()))
    }

    /// All nodes that serve slots.
    pub(super) async fn nodes(&self) -> Result<Vec<Arc<Node>>> {
        Ok(self.topology.map().await?.nodes().to_vec())
    }

    pub(super) fn close(&self) {
        self.topology.close();
    }

    async fn owner(&self, slot: Option<u16>) -> Result<Arc<Node>> {
        self.owner_in(&*self.topology.map().await?, slot)
    }

    fn owner_in(&self, map: &Map, slot: Option<u16>) -> Result<Arc<Node>> {
        let owner = match slot {
            Some(slot) => map.owner(slot),
            // A call without keys may run anywhere.
            None => map.nodes().first(),
        };
        owner.map(Arc::clone).ok_or_else(|| {
            self.topology.refresh();
            unserved()
        })
    }

    /// Sends calls, and those that are redirected once more, until all are answered or too many
    /// redirects have come. Those that go to one node keep their order. When the time is up, those that
    /// were answered keep what they have. Whose time is up after a node said that it is to try again has
    /// met a slot that moves, and not silence.
    async fn follow(&self, calls: &[Call], first: Vec<Next>, replies: &mut Replies) {
        let mut under_way = first;
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut is_held_up = false;
        for _ in 0..REDIRECTS_MAX {
            if under_way.is_empty() {
                return;
            }
            if under_way.iter().any(|next| next.is_later) {
                is_held_up = true;
                last_words(pin!(sleep(backoff.pause())), || Some(())).await;
            }
            if is_over() {
                for next in under_way {
                    put(
                        replies,
                        next.sent.index,
                        Err(late("nothing was charged", is_held_up).not_sent()),
                    );
                }
                return;
            }
            under_way = self.round(calls, (under_way, is_held_up), replies).await;
        }
    }

    /// Sends calls, and puts down what was answered: those that go on.
    async fn round(
        &self,
        calls: &[Call],
        (sent, is_held_up): (Vec<Next>, bool),
        replies: &mut Replies,
    ) -> Vec<Next> {
        let rounds = grouped(sent).into_iter().map(|(node, group)| {
            let (round, mark) = node.send_all(steps(calls, &group).into_iter());
            (round, group, (node, mark))
        });
        // All are queued before the first is waited for.
        let rounds: Vec<_> = rounds.collect();
        let mut redirected = Vec::new();
        for (round, group, (node, mark)) in rounds {
            let Some(answers) = in_time(noting(is_held_up, round)).await else {
                let late = || late("the charge may be spent", is_held_up);
                let others = node.last_words(mark).filter(|_| !is_held_up);
                let why = others.unwrap_or_else(late);
                group.iter().for_each(|sent| put(replies, sent.index, Err(why.clone())));
                continue;
            };
            let mut answers = answers.into_iter();
            for sent in group {
                if sent.is_asking {
                    // The reply to ASKING itself.
                    answers.next();
                }
                let reply = answers.next().unwrap_or_else(|| Err(unserved()));
                let index = sent.index;
                let call = calls.get(index);
                redirected.extend(call.and_then(|call| self.next(call, sent, &reply)));
                put(replies, index, reply);
            }
        }
        redirected
    }

    /// Where a call goes next after this reply, if anywhere.
    fn next(&self, call: &Call, sent: Sent, reply: &Result<Reply>) -> Option<Next> {
        let Ok(reply) = reply else {
            self.topology.refresh();
            return None;
        };
        sent.node.trust().judge(call, reply);
        match Redirect::of(reply, sent.node.target().host())? {
            Redirect::Moved { slot, host } => {
                let node = self.topology.moved(slot, &host);
                (!call.hands_redirects_back()).then(|| Next::now(sent.index, node))
            }
            Redirect::Ask { .. } | Redirect::TryAgain if call.hands_redirects_back() => None,
            Redirect::Ask { host } => {
                let node = self.topology.node(&host);
                Some(Next { sent: Sent { node, is_asking: true, ..sent }, is_later: false })
            }
            Redirect::TryAgain => Some(Next { sent, is_later: true }),
            // One that does not refuse strangers may have been asked by an old map.
            Redirect::Down | Redirect::Unrefused => {
                self.topology.refresh();
                None
            }
        }
    }
}

/// A call that is to be sent.
struct Next {
    sent: Sent,
    /// After a pause.
    is_later: bool,
}

impl Next {
    const fn now(index: usize, node: Arc<Node>) -> Self {
        Self { sent: Sent { index, node, is_asking: false }, is_later: false }
    }
}

/// The calls of each node, in order. There are few nodes.
fn grouped(calls: Vec<Next>) -> Vec<(Arc<Node>, Vec<Sent>)> {
    let mut groups: Vec<(Arc<Node>, Vec<Sent>)> = Vec::new();
    for Next { sent, .. } in calls {
        match groups.iter_mut().find(|(node, _)| Arc::ptr_eq(node, &sent.node)) {
            Some((_, group)) => group.push(sent),
            None => groups.push((Arc::clone(&sent.node), vec![sent])),
        }
    }
    groups
}

fn steps<'a>(calls: &'a [Call], group: &[Sent]) -> Vec<Step<'a>> {
    let mut steps = Vec::with_capacity(group.len());
    for sent in group {
        if sent.is_asking {
            steps.push(Step::Asking);
        }
        steps.extend(calls.get(sent.index).map(Step::Call));
    }
    steps
}

fn put(replies: &mut Replies, index: usize, reply: Result<Reply>) {
    if let Some(place) = replies.get_mut(index) {
        *place = Some(reply);
    }
}

/// What is said about a call whose time is up.
fn late(fate: &str, is_held_up: bool) -> Error {
    if is_held_up { between_nodes(fate) } else { silent() }
}

/// Work that says all along whether others have held it up.
async fn noting<F: Future>(is_held_up: bool, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        if is_held_up {
            note_held_up();
        }
        work.as_mut().poll(context)
    })
    .await
}

/// The answer to a call that was meant for another node, by a map that has changed: this one has not shown
/// that it refuses strangers.
fn unproven() -> Reply {
    Reply::Error("FOREIGN keys of other nodes may not be refused".to_owned())
}

fn unserved() -> Error {
    Error::new(Code::StoreUnavailable, "no node of the cluster serves this key now").not_sent()
}

//! One server: the connections that all callers share, and those that one caller has to itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_core::Result;

use super::link::Link;
use super::resp::{encode, encode_words};
use super::session::Session;
use super::target::Target;
use super::wire::{Wire, Words};
use crate::transport::{Call, Reply};

/// Connections of sessions that are kept for the next one.
const IDLE_MAX: usize = 16;

/// A server and its connections.
#[derive(Debug)]
pub(super) struct Node {
    target: Arc<Target>,
    links: Vec<Link>,
    next: AtomicUsize,
    idle: Mutex<Vec<Wire>>,
}

impl Node {
    pub(super) fn new(target: Target) -> Arc<Self> {
        let target = Arc::new(target);
        let count = target.settings().connections.max(1);
        let links = (0..count).map(|_| Link::new(Arc::clone(&target))).collect();
        Arc::new(Self { target, links, next: AtomicUsize::new(0), idle: Mutex::default() })
    }

    /// Sends one call.
    pub(super) async fn send(&self, call: &Call) -> Result<Reply> {
        self.link()?.send(|bytes| encode(bytes, call.len(), call.words())).await
    }

    /// Sends calls in one round trip, in order.
    pub(super) async fn send_all<'a, I>(&self, calls: I) -> Vec<Result<Reply>>
    where
        I: ExactSizeIterator<Item = &'a Call>,
    {
        match self.link() {
            Ok(link) => {
                let write =
                    |bytes: &mut Vec<u8>, call: &Call| encode(bytes, call.len(), call.words());
                link.send_many(calls, write).await
            }
            Err(error) => calls.map(|_| Err(error.again())).collect(),
        }
    }

    /// Sends commands in one round trip, with no other between them.
    pub(super) async fn commands(&self, commands: &[Words<'_>]) -> Result<Vec<Reply>> {
        let write = |bytes: &mut Vec<u8>, words: &Words<'_>| encode_words(bytes, words);
        self.link()?.send_many(commands.iter(), write).await.into_iter().collect()
    }

    /// A connection of one's own.
    pub(super) async fn session(self: &Arc<Self>) -> Result<Session> {
        while let Some(mut wire) = self.lock_idle().pop() {
            if wire.is_quiet() {
                return Ok(Session::new(wire, Arc::clone(self)));
            }
        }
        let wire = self.target.dial().await?;
        Ok(Session::new(wire, Arc::clone(self)))
    }

    /// Keeps a connection for the next session.
    pub(super) fn keep(&self, wire: Wire) {
        let mut idle = self.lock_idle();
        if idle.len() < IDLE_MAX {
            idle.push(wire);
        }
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn close(&self) {
        self.links.iter().for_each(Link::close);
        self.lock_idle().clear();
    }

    /// The links take turns; one that is lost is passed over.
    fn link(&self) -> Result<&Link> {
        let count = self.links.len();
        let turn = if count > 1 { self.next.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let mut candidates = (0..count).filter_map(|step| self.links.get((turn + step) % count));
        let chosen = match count {
            0 | 1 => candidates.next(),
            _ => candidates.clone().find(|link| link.is_usable()).or_else(|| candidates.next()),
        };
        chosen.ok_or_else(super::queue::closed)
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Wire>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! One server: the connections that all callers share, and those that one caller has to itself.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::store::patience::is_over;
use tollgate_core::{Code, Error, Result};

use super::host::Host;
use super::link::Link;
use super::sending::Awaited;
use super::target::Target;
use super::wire::{Wire, write_command};
use crate::transport::{Call, Reply, Trust};

/// Connections of sessions that are kept for the next one.
const IDLE_MAX: usize = 16;

/// A server and its connections.
#[derive(Debug)]
pub(super) struct Node {
    target: Arc<Target>,
    links: Vec<Link>,
    next: AtomicUsize,
    idle: Mutex<Vec<Wire>>,
    trust: Arc<Trust>,
}

/// Where a call was sent, and how often that connection had been answered by then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    link: usize,
    heard: u64,
}

/// One of several things to send in a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// The next one is meant for this node although its slot is only on the way here.
    Asking,
    Call(&'a Call),
}

impl Node {
    pub(super) fn new(target: Target) -> Arc<Self> {
        let target = Arc::new(target);
        let links = (0..target.connections()).map(|_| Link::new(Arc::clone(&target))).collect();
        let (next, idle, trust) = Default::default();
        Arc::new(Self { target, links, next, idle, trust })
    }

    /// Whether it may get keys of several slots in one call.
    pub(super) const fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Sends one call. It is queued at once; the mark says where and when.
    pub(super) fn send(&self, call: &Call) -> (Awaited, Mark) {
        match self.link() {
            Ok((place, link)) => {
                let mark = Mark { link: place, heard: link.heard() };
                (link.send(|bytes| call.encode(bytes)), mark)
            }
            Err(error) => (Awaited::Failed(Some(error)), Mark::default()),
        }
    }

    /// What a call is to say whose time is up: something if the server has answered others meanwhile, who
    /// stood before it or beside it.
    pub(super) fn last_words(&self, mark: Mark) -> Option<Error> {
        if !is_over() {
            return None;
        }
        let has_answered = self.links.get(mark.link).is_some_and(|link| link.heard() != mark.heard);
        let message = "Redis answered others until the time was up; the charge may be spent";
        has_answered.then(|| Error::new(Code::QueueFull, message))
    }

    /// Sends steps in one round trip, in order, with no other between them. They are queued at once; the
    /// mark says where and when.
    pub(super) fn send_all<'a, I: ExactSizeIterator<Item = Step<'a>>>(
        &self,
        steps: I,
    ) -> (impl Future<Output = Vec<Result<Reply>>> + use<'a, I>, Mark) {
        let count = steps.len();
        let link = self.link();
        let mark = link.as_ref().map(|(place, link)| Mark { link: *place, heard: link.heard() });
        let mark = mark.unwrap_or_default();
        let replies =
            link.map(|(_, link)| link.send_many(steps, |bytes, step| write(bytes, &step)));
        let replies = async move {
            match replies {
                Ok(replies) => replies.await,
                Err(error) => (0..count).map(|_| Err(error.clone())).collect(),
            }
        };
        (replies, mark)
    }

    /// A connection of one's own, to be kept when it is not needed any more.
    pub(super) async fn wire(&self) -> Result<Wire> {
        loop {
            let idle = self.idle().pop();
            let Some(mut wire) = idle else { return self.target.dial().await };
            if self.target.trusts(wire.age()) && wire.is_quiet() {
                return Ok(wire);
            }
        }
    }

    /// Keeps a connection for the next one who wants one of his own.
    pub(super) fn keep(&self, wire: Wire) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(wire);
        }
    }

    pub(super) fn is_at(&self, host: &Host) -> bool {
        self.target.host() == Some(host)
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn close(&self) {
        self.links.iter().for_each(Link::close);
        self.idle().clear();
    }

    /// The links take turns; one that is lost is passed over.
    fn link(&self) -> Result<(usize, &Link)> {
        let count = self.links.len();
        let turn = if count > 1 { self.next.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let mut candidates = (0..count).filter_map(|step| {
            let place = (turn + step) % count;
            Some((place, self.links.get(place)?))
        });
        let chosen = match count {
            0 | 1 => candidates.next(),
            _ => {
                candidates.clone().find(|(_, link)| link.is_usable()).or_else(|| candidates.next())
            }
        };
        chosen.ok_or_else(super::queue::closed)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(bytes: &mut Vec<u8>, step: &Step<'_>) {
    match step {
        Step::Asking => write_command(bytes, &[b"ASKING"]),
        Step::Call(call) => call.encode(bytes),
    }
}

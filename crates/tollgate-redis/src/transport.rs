//! How scripts reach a server: a call goes out, a reply comes back.
//!
//! This is all that the store needs of a client, so that users can bring their own. A transport
//! sends the words of a [`Call`] as one command and returns what the server answered, an error
//! reply included: the store decides what an error reply means.

use core::future::Future;

use tollgate_core::store::{CallContext, CallLimit, Endpoint, LastAnswer};
use tollgate_core::{MaybeSend, MaybeSync, Result};

pub use crate::call::Call;
use crate::error_reply::error_of;

/// Which keys may share a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Any keys: one server holds them all.
    #[default]
    AnyKeys,
    /// Only keys of one hash slot: a cluster.
    SameSlot,
}

/// Sends calls to a server.
pub trait Transport: MaybeSend + MaybeSync + 'static {
    /// Which keys may share a call. A constant.
    fn sharing(&self) -> Sharing {
        Sharing::AnyKeys
    }

    /// Sends one call and waits for its reply.
    ///
    /// An error reply of the server is a reply. An `Err` means that there is none: it must be
    /// marked as [`not_sent`](tollgate_core::Error::not_sent) if the call certainly did not reach
    /// the server. A transport never sends a call twice, unless the server redirected it without
    /// running it (MOVED, ASK).
    fn send(&self, call: &Call) -> impl Future<Output = Result<Reply>> + MaybeSend;

    /// The bound on calls at once, if there is one. The store waits for a permit before it sends a
    /// call, and records in the context of each caller whether others were answered meanwhile.
    fn call_limit(&self) -> Option<&CallLimit> {
        None
    }

    /// Sends one call like [`Transport::send`], and records in `cx` that it was sent. By default at
    /// once; a transport that has to connect first may record it later.
    fn send_recorded(
        &self,
        call: &Call,
        cx: CallContext<'_>,
    ) -> impl Future<Output = Result<Reply>> + MaybeSend {
        cx.sent();
        self.send(call)
    }

    /// The server that serves a slot, as far as it is known now; of a single server, that server.
    fn endpoint(&self, slot: Option<u16>) -> Endpoint {
        let _ = slot;
        Endpoint::FIRST
    }

    /// The last answer of the server that serves a slot, or of a single server, if it came within
    /// the last second. Nothing where this is not measured.
    fn last_answer(&self, slot: Option<u16>) -> Option<LastAnswer> {
        let _ = slot;
        None
    }

    /// Sends several calls, in order for each key, and hands over the reply of each by its index.
    ///
    /// A reply is handed over as soon as it is there: the caller may stop waiting before all of
    /// them are. A transport that can have several calls under way should.
    fn send_all(
        &self,
        calls: &[Call],
        mut replied: impl FnMut(usize, Result<Reply>) + MaybeSend,
    ) -> impl Future<Output = ()> + MaybeSend {
        async move {
            for (index, call) in calls.iter().enumerate() {
                replied(index, self.send(call).await);
            }
        }
    }

    /// Runs work that must not end with the caller that began it. By default such work runs inside
    /// of that caller: when it is cancelled, other callers that share its round do not get their
    /// answers.
    fn spawner(&self) -> Option<Spawner> {
        None
    }

    /// Releases connections.
    fn close(&self) -> impl Future<Output = ()> + MaybeSend {
        async {}
    }
}

pub use tollgate_core::store::detach::Spawner;

/// The arguments of a call, one after another in one buffer.
#[derive(Clone, Debug, Default)]
pub struct Args {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Args {
    /// Appends a text.
    pub fn text(&mut self, text: &str) {
        self.push(text.as_bytes());
    }

    /// Appends an integer.
    pub fn integer(&mut self, number: i64) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends an integer without a sign. Those of the store are below 2^53.
    pub fn unsigned(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The arguments, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = core::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(move |(start, end)| self.bytes.get(start..*end).unwrap_or_default())
    }
}

/// What a server answered. A transport makes them; the store alone matches on them, so a kind of
/// reply may be added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing.
    Nil,
    /// An integer.
    Integer(i64),
    /// A text, which need not be UTF-8.
    Text(Vec<u8>),
    /// Several replies.
    List(Vec<Self>),
    /// An error: its first word is its kind.
    Error(String),
}

impl Reply {
    /// The reply, unless it is an error.
    ///
    /// # Errors
    /// The error that an error reply stands for.
    pub fn ok(self) -> Result<Self> {
        match self {
            Self::Error(text) => Err(error_of(&text)),
            other => Ok(other),
        }
    }
}

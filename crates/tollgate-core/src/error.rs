//! Why no decision could be made. Being denied is not an error: it is a [`Decision`].
//!
//! An error carries a stable code that clients may match on, the field at fault when the input was
//! bad, and whether trying again can help. Messages never contain keys or secrets.
//!
//! [`Decision`]: crate::Decision

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;

use crate::store::Endpoint;

/// Numbers events of all stores of the process, so that a later event has a higher number.
static NEXT_EVENT: AtomicU64 = AtomicU64::new(1);

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// The stable codes. New ones may be added; the text of one never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The store cannot be reached or refused to answer. An outage.
    StoreUnavailable,
    /// The store did not answer within the deadline. An outage.
    Timeout,
    /// Too many writers raced for one key. Never fails open: an attacker can cause contention.
    ConflictExhausted,
    /// A bounded queue or table is full. Never fails open.
    QueueFull,
    /// The store has no space left for a state: a full disk, a database at its bound, a server out
    /// of memory. Nothing was charged. Never fails open: an attacker can fill a store.
    StoreFull,
    /// A stored state cannot be read. Never fails open; `reset` is the cure.
    CorruptState,
    /// The caller's input is wrong; the error names the field.
    InvalidRequest,
    /// No policy has that name.
    UnknownPolicy,
    /// The request id was used before for another request on the same key.
    IdempotencyConflict,
    /// The caller did not authenticate.
    Unauthorized,
    /// The caller may not do that.
    Forbidden,
    /// The configuration is wrong; the error names the field.
    ConfigInvalid,
    /// This store cannot do that.
    Unsupported,
}

impl Code {
    /// The stable text of the code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StoreUnavailable => "store_unavailable",
            Self::Timeout => "timeout",
            Self::ConflictExhausted => "conflict_exhausted",
            Self::QueueFull => "queue_full",
            Self::StoreFull => "store_full",
            Self::CorruptState => "corrupt_state",
            Self::InvalidRequest => "invalid_request",
            Self::UnknownPolicy => "unknown_policy",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::ConfigInvalid => "config_invalid",
            Self::Unsupported => "unsupported",
        }
    }

    /// Whether the failure mode of a policy decides what happens. Everything else never fails open.
    #[must_use]
    pub const fn is_outage(self) -> bool {
        matches!(self, Self::StoreUnavailable | Self::Timeout)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why no decision could be made.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    field: Option<Cow<'static, str>>,
    message: String,
    not_sent: bool,
    /// The event that took the call down, for the breaker; 0 if it is not numbered.
    event: u64,
    /// The server whose breaker refused the call: the store was not called.
    by_breaker: Option<Endpoint>,
    origin: Origin,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// Who made an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// A store, from what its server did.
    Store,
    /// This process, when the time of the call was up.
    Deadline,
    /// This process, before the call was begun.
    Queue,
}

impl Error {
    /// An error with a code and a message. The message must hold no key and no secret.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            field: None,
            message: message.into(),
            not_sent: false,
            event: 0,
            by_breaker: None,
            origin: Origin::Store,
            source: None,
        }))
    }

    /// Bad input from a caller: the field at fault (a name, or a path such as `requests[17].cost`),
    /// and what is accepted.
    pub fn invalid(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, message).with_field(field)
    }

    /// A bad quota or configuration: the field at fault, and what is accepted.
    pub fn config(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Code::ConfigInvalid, message).with_field(field)
    }

    /// Names the field at fault.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    /// Attaches the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// Declares that nothing reached the store, so that trying again cannot charge twice.
    #[must_use]
    pub fn not_sent(mut self) -> Self {
        self.0.not_sent = true;
        self
    }

    /// Takes [`not_sent`](Self::not_sent) back: something else has reached the store before, and
    /// trying all of it again would do that twice.
    #[must_use]
    pub fn sent(mut self) -> Self {
        self.0.not_sent = false;
        self
    }

    /// Makes this error, and every clone of it, one event for the breaker of the limiter: a lost
    /// connection takes down many calls and is one event. The outages of calls whose errors are not
    /// numbered are events of their own, unless the calls were under way at the same time.
    #[must_use]
    pub fn as_event(mut self) -> Self {
        if self.0.event == 0 {
            self.0.event = NEXT_EVENT.fetch_add(1, Ordering::Relaxed);
        }
        self
    }

    /// Declares that the breaker of a server refused the call.
    pub(crate) fn by_breaker(mut self, endpoint: Endpoint) -> Self {
        self.0.by_breaker = Some(endpoint);
        self
    }

    /// Declares that the error was made when the time of the call was up, from what was known.
    pub(crate) fn made_here(mut self) -> Self {
        self.0.origin = Origin::Deadline;
        self
    }

    /// Declares that the call was refused before it was begun.
    pub(crate) fn refused_here(mut self) -> Self {
        self.0.origin = Origin::Queue;
        self
    }

    /// The same error with another message.
    pub(crate) fn with_message(mut self, message: String) -> Self {
        self.0.message = message;
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The field at fault, for bad input.
    #[must_use]
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// What went wrong, without the code and the field.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether the store could not answer, so that the failure mode decides.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        self.0.code.is_outage()
    }

    /// Whether the same call may be made again at once without the risk of charging twice.
    #[must_use]
    pub fn is_not_sent(&self) -> bool {
        self.0.not_sent
    }

    /// The number of the event that took the call down, if it has one.
    pub(crate) fn event(&self) -> Option<u64> {
        (self.0.event != 0).then_some(self.0.event)
    }

    /// The server whose breaker refused the call, if one did: it has the reason of the outage.
    pub(crate) fn refused_by(&self) -> Option<Endpoint> {
        self.0.by_breaker
    }

    /// Whether this process made the error from what it knew, without an answer of a server.
    pub(crate) fn is_made_here(&self) -> bool {
        self.0.origin != Origin::Store
    }

    /// Whether the call was refused before it was begun.
    pub(crate) fn is_refused_here(&self) -> bool {
        self.0.origin == Origin::Queue
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.field {
            Some(field) => write!(f, "{}: {field}: {}", self.0.code, self.0.message),
            None => write!(f, "{}: {}", self.0.code, self.0.message),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

//! A connected client: what it does, and since when. The same for every protocol.
//!
//! Time limits are facts of this record, which the listener compares with the clock a few times
//! per second: a connection has no timer of its own, and no bytes that it sends extend a limit.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tollgate_service::api::BODY_MAX_BYTES;
use tollgate_service::engine::BATCH_MAX;

use super::incoming::IncomingBytes;
use crate::config::TimeLimits;

/// The most streams that do not end by themselves, such as health watches, of one client.
const STREAMS_MAX: usize = 4;
/// The most refused ones of a client without a valid request.
const STREAMS_REFUSED_MAX: usize = 2 * STREAMS_MAX;
/// The most bytes of messages that are not answered yet, of one client.
const INCOMING_MAX_BYTES: usize = 4 * BODY_MAX_BYTES;
/// How long the answer to a failed attempt to authenticate takes: tokens are not to be guessed.
const ATTEMPT_DELAY: Duration = Duration::from_millis(100);
/// How long a client that was idle may take to end a connection that the server closes.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    connected: Instant,
    /// Whether the listener was full: only its health is answered.
    reserved: bool,
    record: Mutex<Record>,
    /// Requests that have arrived and were not looked at yet.
    unseen: AtomicUsize,
    close: Notify,
    /// The elements of batches whose replies the client has not taken yet.
    elements: Arc<Semaphore>,
    /// The bytes of messages that are not answered yet.
    incoming: Arc<Semaphore>,
    /// The streams of all clients.
    streams: Arc<Semaphore>,
    /// Held while an attempt to authenticate is delayed.
    attempt: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Record {
    /// Whether it has made a request that it has the right to make.
    valid: bool,
    requested: bool,
    under_way: usize,
    streams: usize,
    refused_streams: usize,
    /// When the last request ended, or the client connected.
    idle_since: Instant,
    /// When the first byte of an incomplete request arrived.
    receiving_since: Option<Instant>,
    /// Since when it does not take bytes.
    blocked_since: Option<Instant>,
    /// Replies that it has not taken yet.
    replies: Vec<(u64, Instant)>,
    next_reply: u64,
    closed: Option<Close>,
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// No valid request in time.
    FirstRequest,
    /// A request took too long to arrive.
    Request,
    /// A reply was not taken in time.
    Reply,
    /// No request for too long.
    Idle,
    /// The listener needs the connection for another client.
    Full,
}

impl Close {
    pub(super) const ALL: [Self; 5] =
        [Self::FirstRequest, Self::Request, Self::Reply, Self::Idle, Self::Full];

    /// A word for metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::FirstRequest => "first_request",
            Self::Request => "request",
            Self::Reply => "reply",
            Self::Idle => "idle",
            Self::Full => "full",
        }
    }

    /// How long the protocol may take to end the connection in an orderly way.
    pub(super) const fn grace(self) -> Duration {
        match self {
            Self::Idle => CLOSE_GRACE,
            _ => Duration::ZERO,
        }
    }
}

impl Client {
    /// A client that has just connected; `streams` bounds those of all clients.
    pub(crate) fn new(streams: Arc<Semaphore>, reserved: bool) -> Arc<Self> {
        let now = Instant::now();
        let record = Record {
            valid: false,
            requested: false,
            under_way: 0,
            streams: 0,
            refused_streams: 0,
            idle_since: now,
            receiving_since: None,
            blocked_since: None,
            replies: Vec::new(),
            next_reply: 0,
            closed: None,
        };
        Arc::new(Self {
            connected: now,
            reserved,
            record: Mutex::new(record),
            unseen: AtomicUsize::new(0),
            close: Notify::new(),
            elements: Arc::new(Semaphore::new(BATCH_MAX)),
            incoming: Arc::new(Semaphore::new(INCOMING_MAX_BYTES)),
            streams,
            attempt: tokio::sync::Mutex::new(()),
        })
    }

    /// Nothing panics while the record is locked.
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) const fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// The client made a request that it has the right to make.
    pub(crate) fn made_valid_request(&self) {
        self.record().valid = true;
    }

    pub(super) fn is_valid(&self) -> bool {
        self.record().valid
    }

    pub(super) fn has_requested(&self) -> bool {
        self.record().requested
    }

    /// A part of a request arrived. Further parts do not extend its time.
    pub(crate) fn receiving(&self) {
        let mut record = self.record();
        if record.under_way == 0 && record.receiving_since.is_none() {
            record.receiving_since = Some(Instant::now());
        }
    }

    /// The client does not take bytes, or takes them again.
    pub(super) fn blocked(&self, blocked: bool) {
        let mut record = self.record();
        record.blocked_since = match (blocked, record.blocked_since) {
            (false, _) => None,
            (true, Some(since)) => Some(since),
            (true, None) => Some(Instant::now()),
        };
    }

    /// A request is complete as far as its headers; it is under way until the value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        let mut record = self.record();
        (record.requested, record.receiving_since) = (true, None);
        record.under_way += 1;
        UnderWay { client: Arc::clone(self), reply: None, stream: None }
    }

    /// A stream that does not end by itself; `None` when there are too many. Its connection counts
    /// as idle when the listener is full.
    pub(crate) fn begin_stream(self: &Arc<Self>) -> Option<UnderWay> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().ok();
        let mut record = self.record();
        (record.requested, record.receiving_since) = (true, None);
        let Some(permit) = permit.filter(|_| record.streams < STREAMS_MAX) else {
            record.refused_streams += 1;
            return None;
        };
        record.streams += 1;
        Some(UnderWay { client: Arc::clone(self), reply: None, stream: Some(permit) })
    }

    /// A request has arrived: HTTP/2 begins many before the first is looked at.
    pub(super) fn request_arrived(&self) {
        self.unseen.fetch_add(1, Relaxed);
    }

    /// A request that has arrived is looked at: it has begun, or is refused.
    pub(crate) fn request_seen(&self) {
        self.unseen.fetch_sub(1, Relaxed);
    }

    pub(super) fn has_unseen_requests(&self) -> bool {
        self.unseen.load(Relaxed) > 0
    }

    /// Whether it has asked for too many streams again and again, and made no valid request.
    pub(super) fn asks_in_vain(&self) -> bool {
        let record = self.record();
        !record.valid && record.refused_streams > STREAMS_REFUSED_MAX
    }

    /// Waits until the replies to a batch of this many elements, and to those before it, are few
    /// enough. They are counted until the permit is dropped. `None` when the connection is closed.
    pub(crate) async fn weigh(&self, elements: usize) -> Option<OwnedSemaphorePermit> {
        let elements = u32::try_from(elements.min(BATCH_MAX)).unwrap_or(u32::MAX);
        Arc::clone(&self.elements).acquire_many_owned(elements).await.ok()
    }

    /// Waits after a failed attempt to authenticate. Attempts of one client wait one by one.
    pub(crate) async fn delay_attempt(&self) {
        let _turn = self.attempt.lock().await;
        tokio::time::sleep(ATTEMPT_DELAY).await;
    }

    /// Counts the bytes of a message.
    pub(crate) fn incoming(&self) -> IncomingBytes {
        IncomingBytes::new(Arc::clone(&self.incoming))
    }

    /// Since when no request is under way, if none is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let record = self.record();
        (record.under_way == 0).then_some(record.idle_since)
    }

    /// The time limit that has passed, if one has.
    pub(super) fn expired(&self, now: Instant, limits: &TimeLimits) -> Option<Close> {
        let record = self.record();
        let passed = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        let is_idle = record.under_way == 0 && record.streams == 0;
        let late = |(_, since): &(u64, Instant)| passed(*since, limits.reply);
        if !record.valid && passed(self.connected, limits.first_request) {
            Some(Close::FirstRequest)
        } else if record.receiving_since.is_some_and(|since| passed(since, limits.request)) {
            Some(Close::Request)
        } else if record.blocked_since.is_some_and(|since| passed(since, limits.reply))
            || record.replies.iter().any(late)
        {
            Some(Close::Reply)
        } else if is_idle && passed(record.idle_since, limits.idle) {
            Some(Close::Idle)
        } else {
            None
        }
    }

    /// Closes the connection; `false` if it is being closed already.
    pub(super) fn close(&self, why: Close) -> bool {
        let mut record = self.record();
        if record.closed.is_some() {
            return false;
        }
        record.closed = Some(why);
        drop(record);
        if why.grace().is_zero() {
            // Batches that wait are not decided.
            self.elements.close();
        }
        self.close.notify_one();
        true
    }

    /// Completes when the listener closes the connection.
    pub(crate) async fn closed(&self) -> Close {
        loop {
            if let Some(why) = self.record().closed {
                return why;
            }
            self.close.notified().await;
        }
    }
}

/// A request that is under way, until its reply is taken.
#[derive(Debug)]
pub(crate) struct UnderWay {
    client: Arc<Client>,
    /// The number of its reply, once there is one.
    reply: Option<u64>,
    /// Held by a stream that does not end by itself.
    stream: Option<OwnedSemaphorePermit>,
}

impl UnderWay {
    /// There is a reply: from now on the client has to take it.
    pub(crate) fn replied(&mut self) {
        // A stream has no end that a client could wait for.
        if self.stream.is_none() {
            let mut record = self.client.record();
            let number = record.next_reply;
            record.next_reply += 1;
            record.replies.push((number, Instant::now()));
            self.reply = Some(number);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut record = self.client.record();
        if self.stream.is_some() {
            record.streams = record.streams.saturating_sub(1);
        } else {
            record.under_way = record.under_way.saturating_sub(1);
        }
        let reply = record.replies.iter().position(|(number, _)| Some(*number) == self.reply);
        if let Some(index) = reply {
            record.replies.swap_remove(index);
        }
        if record.under_way == 0 {
            record.idle_since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: TimeLimits = TimeLimits {
        first_request: Duration::from_secs(10),
        request: Duration::from_secs(20),
        reply: Duration::from_secs(30),
        idle: Duration::from_secs(75),
    };

    /// What closes the connection after this many seconds, if nothing else happens.
    fn after(client: &Client, seconds: u64) -> Option<Close> {
        client.expired(Instant::now() + Duration::from_secs(seconds), &LIMITS)
    }

    fn valid_client() -> Arc<Client> {
        let client = Client::new(Arc::new(Semaphore::new(9)), false);
        client.made_valid_request();
        client
    }

    #[test]
    fn a_first_request_is_late_whatever_else_happens() {
        let client = Client::new(Arc::new(Semaphore::new(9)), false);
        client.receiving();
        let _under_way = client.begin();
        assert_eq!(after(&client, 9), None);
        assert_eq!(after(&client, 10), Some(Close::FirstRequest));
        client.made_valid_request();
        assert_eq!(after(&client, 1_000), None);
    }

    #[test]
    fn bytes_do_not_extend_the_time_of_a_request() {
        let client = valid_client();
        client.receiving();
        let start = Instant::now();
        client.receiving();
        assert_eq!(client.expired(start + LIMITS.request, &LIMITS), Some(Close::Request));
        drop(client.begin());
        assert_eq!(after(&client, 74), None);
        assert_eq!(after(&client, 75), Some(Close::Idle));
    }

    #[test]
    fn each_reply_has_its_time() {
        let client = valid_client();
        let (mut first, mut second) = (client.begin(), client.begin());
        first.replied();
        second.replied();
        assert_eq!(after(&client, 30), Some(Close::Reply));
        drop(first);
        assert_eq!(after(&client, 30), Some(Close::Reply));
        drop(second);
        assert_eq!(after(&client, 30), None);
        client.blocked(true);
        assert_eq!(after(&client, 30), Some(Close::Reply));
        client.blocked(false);
        assert_eq!(after(&client, 30), None);
    }

    #[test]
    fn a_stream_is_no_request_under_way_and_keeps_its_connection() {
        let client = valid_client();
        let mut streams: Vec<_> = (0..STREAMS_MAX).filter_map(|_| client.begin_stream()).collect();
        assert_eq!(streams.len(), STREAMS_MAX);
        assert!(client.begin_stream().is_none());
        assert_eq!(client.streams.available_permits(), 5);
        streams.iter_mut().for_each(UnderWay::replied);
        assert_eq!(after(&client, 1_000), None);
        assert!(client.idle_since().is_some());
        drop(streams);
        assert_eq!(after(&client, 75), Some(Close::Idle));
    }

    #[test]
    fn a_client_without_a_valid_request_is_refused_few_streams() {
        let client = Client::new(Arc::new(Semaphore::new(9)), false);
        let ask = |times| (0..times).filter_map(|_| client.begin_stream()).collect::<Vec<_>>();
        let streams = ask(STREAMS_MAX + STREAMS_REFUSED_MAX);
        assert_eq!((streams.len(), client.asks_in_vain()), (STREAMS_MAX, false));
        assert!(ask(1).is_empty() && client.asks_in_vain());
        client.made_valid_request();
        assert!(!client.asks_in_vain());
    }
}

//! Keeps one server connected.
//!
//! The first call opens the connection and waits for it. When it is lost, a task in the background
//! makes another, at once if the old one had worked and then with growing pauses; calls in the
//! meantime fail at once, as unsent.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tollgate_core::{Code, Error, Result};

use super::alone::{Alone, Desk};
use super::backoff::Backoff;
use super::connection::{Connection, End};
use super::queue::{Appended, Phase, Queue};
use super::sending::Awaited;
use super::target::Target;
use crate::transport::Reply;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection that is made anew whenever it is lost.
#[derive(Debug)]
pub(super) struct Link {
    queue: Arc<Queue>,
    desk: Arc<Desk>,
    target: Arc<Target>,
}

impl Link {
    pub(super) fn new(target: Arc<Target>) -> Self {
        Self { queue: Arc::new(Queue::new()), desk: Arc::default(), target }
    }

    /// Sends one command. It is queued at once.
    pub(super) fn send(&self, encode: impl FnOnce(&mut Vec<u8>)) -> Awaited {
        let receiver = match self.queue.append_one(encode) {
            Ok(Appended::Asleep(receiver)) => {
                let (queue, desk) = (Arc::clone(&self.queue), Arc::clone(&self.desk));
                return Awaited::Alone(Alone::new(queue, desk, receiver));
            }
            Ok(appended) => self.opened(appended),
            Err(error) => Err(error),
        };
        receiver.map_or_else(|error| Awaited::Failed(Some(error)), Awaited::Shared)
    }

    /// Sends several commands, one after another, with no other between them.
    pub(super) fn send_many<C, I: ExactSizeIterator<Item = C>, E: FnMut(&mut Vec<u8>, C)>(
        &self,
        commands: I,
        encode: E,
    ) -> impl Future<Output = Vec<Result<Reply>>> + use<C, I, E> {
        let count = commands.len();
        // Nothing to send is nothing to wait for.
        let receiver = (count > 0).then(|| {
            let appended = self.queue.append_many(commands, encode);
            appended.and_then(|appended| self.opened(appended))
        });
        async move {
            let Some(receiver) = receiver else { return Vec::new() };
            let failed = match receiver {
                Ok(receiver) => match receiver.await {
                    Ok(replies) => return replies,
                    Err(_) => abandoned(),
                },
                Err(error) => error,
            };
            (0..count).map(|_| Err(failed.clone())).collect()
        }
    }

    /// How often the server has answered anybody here.
    pub(super) fn heard(&self) -> u64 {
        self.queue.heard()
    }

    /// Whether a command that is sent now may be answered.
    pub(super) fn is_usable(&self) -> bool {
        self.queue.is_usable()
    }

    /// Lets what is under way end, and makes no more connections.
    pub(super) fn close(&self) {
        self.queue.enter(Phase::Closed);
    }

    /// Opens the connection if this is the first use.
    fn opened<T>(&self, appended: Appended<T>) -> Result<oneshot::Receiver<T>> {
        let receiver = match appended {
            Appended::Here(receiver) => return Ok(receiver),
            Appended::Asleep(receiver) => {
                self.queue.wake();
                return Ok(receiver);
            }
            Appended::First(receiver) => receiver,
        };
        match Handle::try_current() {
            Ok(runtime) => {
                let keeper = Keeper(Arc::clone(&self.queue));
                let (desk, target) = (Arc::clone(&self.desk), Arc::clone(&self.target));
                runtime.spawn(keep(keeper, desk, target));
                Ok(receiver)
            }
            Err(_) => {
                self.queue.enter(Phase::Idle);
                Err(no_runtime())
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

/// When the runtime ends, the next use begins anew on another one.
struct Keeper(Arc<Queue>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.enter(Phase::Idle);
    }
}

async fn keep(keeper: Keeper, desk: Arc<Desk>, target: Arc<Target>) {
    let queue = &keeper.0;
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    while !queue.is_closed() {
        let start = Instant::now();
        let end = connect_and_run(queue, &desk, &target).await;
        if start.elapsed() > LONGEST_PAUSE {
            backoff.reset();
        }
        match end {
            Err(error) => queue.enter(Phase::Down(error)),
            Ok(End::Closed) => return,
            Ok(End::Lost { was_used: true }) => {
                backoff.reset();
                continue;
            }
            Ok(End::Lost { was_used: false } | End::Refused) => {}
        }
        sleep(backoff.pause()).await;
    }
}

/// Runs one connection until it ends, or until another server is the right one.
async fn connect_and_run(queue: &Arc<Queue>, desk: &Desk, target: &Target) -> Result<End> {
    let wire = target.dial().await?;
    let host = wire.host().clone();
    let stream = wire.into_stream()?;
    let _seated = desk.seat(Connection::new(Arc::clone(queue), stream, target.reply_timeout()));
    let mut moves = pin!(target.moves_from(&host));
    let mut has_moved = false;
    queue.enter(Phase::Up);
    let run = poll_fn(|cx| {
        let mut desk = desk.lock();
        // It is there until this ends.
        let Some(connection) = &mut *desk else { return Poll::Ready(End::Closed) };
        if !has_moved && moves.as_mut().poll(cx).is_ready() {
            has_moved = true;
            let message = format!("{host} is not the server to use any more");
            connection.leave(Error::new(Code::StoreUnavailable, message));
        }
        Pin::new(connection).poll(cx)
    });
    Ok(run.await)
}

pub(super) fn no_runtime() -> Error {
    let message = "the Redis client needs a tokio runtime with I/O and time";
    Error::new(Code::Unsupported, message).not_sent()
}

/// The task that would have answered is gone, and nobody knows how far it came.
pub(super) fn abandoned() -> Error {
    Error::new(Code::StoreUnavailable, "the connection to Redis ended before the reply")
}

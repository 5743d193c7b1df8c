//! Graceful shutdown: what was accepted is answered before the server ends.

use std::convert::Infallible;

use tokio::sync::{mpsc, watch};

/// Held by the server: signals the shutdown, and waits for all tasks.
#[derive(Debug)]
pub(crate) struct Shutdown {
    stop: watch::Sender<bool>,
    /// Every task holds a clone of the sender; the receiver ends with the last one.
    running: mpsc::Sender<Infallible>,
    ended: mpsc::Receiver<Infallible>,
}

/// Held by every task: receives the shutdown, which waits until it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct ShutdownSignal {
    stop: watch::Receiver<bool>,
    _running: mpsc::Sender<Infallible>,
}

impl Shutdown {
    pub(crate) fn new() -> Self {
        let (running, ended) = mpsc::channel(1);
        Self { stop: watch::Sender::new(false), running, ended }
    }

    /// A signal for another task.
    pub(crate) fn signal(&self) -> ShutdownSignal {
        ShutdownSignal { stop: self.stop.subscribe(), _running: self.running.clone() }
    }

    /// Signals the shutdown, and waits until every task has ended.
    pub(crate) async fn finish(self) {
        let Self { stop, running, mut ended } = self;
        stop.send_replace(true);
        drop(running);
        // Nothing is ever sent: this ends when the last sender is dropped.
        let _none: Option<Infallible> = ended.recv().await;
    }
}

impl ShutdownSignal {
    /// Completes at shutdown.
    pub(crate) async fn received(&mut self) {
        // An error means that the server was dropped, which is a shutdown too.
        let _received = self.stop.wait_for(|stop| *stop).await;
    }
}

//! Ending well: what was accepted is answered before the server is gone.

use std::convert::Infallible;

use tokio::sync::{mpsc, watch};

/// Held by the server: tells everybody to end, and waits until they have.
#[derive(Debug)]
pub(crate) struct Drain {
    stop: watch::Sender<bool>,
    alive: mpsc::Sender<Infallible>,
    gone: mpsc::Receiver<Infallible>,
}

/// Held by everybody who works: hears when to end, and is missed as long as it exists.
#[derive(Clone, Debug)]
pub(crate) struct Draining {
    stop: watch::Receiver<bool>,
    _alive: mpsc::Sender<Infallible>,
}

impl Drain {
    pub(crate) fn new() -> Self {
        let (alive, gone) = mpsc::channel(1);
        Self { stop: watch::Sender::new(false), alive, gone }
    }

    pub(crate) fn draining(&self) -> Draining {
        Draining { stop: self.stop.subscribe(), _alive: self.alive.clone() }
    }

    /// Tells everybody to end, and waits until the last one has.
    pub(crate) async fn finish(self) {
        let Self { stop, alive, mut gone } = self;
        stop.send_replace(true);
        drop(alive);
        // Nobody ever sends: this ends when the last sender is dropped.
        let _ended: Option<Infallible> = gone.recv().await;
    }
}

impl Draining {
    /// Ready when it is time to end.
    pub(crate) async fn stopped(&mut self) {
        // An error means that the server is gone: then it is time to end as well.
        let _told = self.stop.wait_for(|stop| *stop).await;
    }
}

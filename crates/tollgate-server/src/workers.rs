//! The threads that serve connections: one runtime of one thread each.
//!
//! Half of what a small request costs on a runtime of many threads is the scheduler, which moves
//! its tasks between them. Here a connection and all its tasks stay on one thread. Each new
//! connection goes to the worker with the fewest, over all listeners: a few connections that stay
//! are spread evenly, which ports shared by the operating system (SO_REUSEPORT) do not promise.
//! See `docs/design/server-threads.md`.

use std::convert::Infallible;
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, watch};
use tracing::dispatcher;

/// The threads of a server. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct WorkerThreads {
    workers: Workers,
    stop: watch::Sender<bool>,
    /// Every thread holds the sender until it ends; nothing is ever sent.
    ended: mpsc::Receiver<Infallible>,
}

/// What hands connections to the threads.
#[derive(Clone, Debug)]
pub(crate) struct Workers(Arc<[Worker]>);

#[derive(Debug)]
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A connection that counts for its worker until this is dropped.
#[derive(Debug)]
struct Assigned(Arc<AtomicUsize>);

impl WorkerThreads {
    /// One thread for each core that this process may use, if the store is in this process. They
    /// log where this thread does. Without threads, connections are served where they are
    /// accepted.
    ///
    /// # Errors
    /// When the operating system has no thread or no descriptor left.
    pub(crate) fn for_store(is_in_process: bool) -> io::Result<Self> {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        Self::start(if is_in_process { cores() } else { 0 })
    }

    fn start(count: usize) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (running, ended) = mpsc::channel(1);
        let start = |number: usize| {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let worker = Worker::new(&runtime);
            let (mut stopped, running) = (stopped.clone(), running.clone());
            let log = dispatcher::get_default(Clone::clone);
            let run = move || {
                let _log = dispatcher::set_default(&log);
                // An error means that the threads were dropped, which stops them too.
                let _stopped = runtime.block_on(stopped.wait_for(|stop| *stop));
                runtime.shutdown_background();
                drop(running);
            };
            thread::Builder::new().name(format!("tollgate-{number}")).spawn(run)?;
            Ok(worker)
        };
        let workers = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Self { workers: Workers(workers), stop, ended })
    }

    pub(crate) fn workers(&self) -> Workers {
        self.workers.clone()
    }

    /// Ends the threads, and every task on them.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        let _none: Option<Infallible> = self.ended.recv().await;
    }
}

impl Worker {
    fn new(runtime: &Runtime) -> Self {
        Self { runtime: runtime.handle().clone(), connections: Arc::default() }
    }
}

impl Workers {
    /// Serves a connection on the thread that has the fewest; without threads in this runtime.
    pub(crate) fn spawn(&self, serve: impl Future<Output = ()> + Send + 'static) {
        let fewest = self.0.iter().min_by_key(|worker| worker.connections.load(Relaxed));
        let Some(worker) = fewest else {
            tokio::spawn(serve);
            return;
        };
        worker.connections.fetch_add(1, Relaxed);
        let assigned = Assigned(Arc::clone(&worker.connections));
        worker.runtime.spawn(async move {
            let _assigned = assigned;
            serve.await;
        });
    }
}

impl Drop for Assigned {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tokio::sync::oneshot;

    use super::*;

    /// A connection that ends when the sender is dropped, and the thread that serves it.
    async fn connect(workers: &Workers) -> (oneshot::Sender<()>, thread::ThreadId) {
        let (end, ended) = oneshot::channel::<()>();
        let (thread, of) = oneshot::channel();
        workers.spawn(async move {
            let _sent = thread.send(thread::current().id());
            let _ended = ended.await;
        });
        (end, of.await.unwrap())
    }

    #[tokio::test]
    async fn each_connection_goes_to_the_worker_with_the_fewest() {
        let threads = WorkerThreads::start(3).unwrap();
        let workers = threads.workers();
        let mut connections: HashMap<_, Vec<_>> = HashMap::new();
        for _ in 0..9 {
            let (end, thread) = connect(&workers).await;
            connections.entry(thread).or_default().push(end);
        }
        assert!(connections.len() == 3 && connections.values().all(|all| all.len() == 3));
        // The next three go where three ended.
        let idle = *connections.keys().next().unwrap();
        connections.remove(&idle);
        while workers.0.iter().all(|worker| worker.connections.load(Relaxed) > 0) {
            tokio::task::yield_now().await;
        }
        let mut again = Vec::new();
        for _ in 0..3 {
            again.push(connect(&workers).await);
        }
        assert!(again.iter().all(|(_, thread)| *thread == idle));
        threads.stop().await;
    }

    #[tokio::test]
    async fn stopping_ends_connections() {
        let threads = WorkerThreads::start(2).unwrap();
        let (kept, dropped) = oneshot::channel::<()>();
        threads.workers().spawn(async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
        threads.stop().await;
        assert!(dropped.await.is_err());
    }
}

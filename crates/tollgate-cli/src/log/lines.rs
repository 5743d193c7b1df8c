//! Lines of the log, written by a thread of their own.
//!
//! A write to standard error may wait for as long as a disk is busy, or forever: a pipe that
//! nothing reads takes 64 KiB. A decision that waits for it would miss its deadline, and with it
//! all others of its thread. So the line is queued, and dropped when the queue is full.

use std::io::{self, Write};
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait. More are dropped, and counted.
const WAITING_MAX: usize = 1_000;
/// How long the end of the process waits for lines to be written.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// The wait before the end of the process looks again for room in the queue, and how often it
/// looks.
const RECHECK: Duration = Duration::from_millis(5);
const RECHECKS: u32 = 200;

enum Message {
    Line(Vec<u8>),
    /// All lines before it are written.
    Flush(SyncSender<()>),
}

/// Where lines are queued.
#[derive(Clone)]
pub(super) struct Lines {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

impl Lines {
    /// Starts the thread, which never keeps the process alive.
    pub(super) fn start(to: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let dropped = Arc::default();
        let lines = Self { sender, dropped };
        let own = lines.clone();
        let write = move || own.write_all(&receiver, to);
        thread::Builder::new().name("tollgate-log".to_owned()).spawn(write)?;
        Ok(lines)
    }

    /// Waits until all lines so far are written: for at most a second until there is room in the
    /// queue, and for another one then. What is not written by then is lost.
    pub(super) fn flush(&self) {
        let (written, is_written) = sync_channel(1);
        let mut message = Message::Flush(written);
        for _ in 0..RECHECKS {
            match self.sender.try_send(message) {
                Ok(()) => {
                    let _ = is_written.recv_timeout(FLUSH_MAX);
                    return;
                }
                Err(TrySendError::Full(back)) => message = back,
                Err(TrySendError::Disconnected(_)) => return,
            }
            // Nothing comes yet: only time passes.
            let _ = is_written.recv_timeout(RECHECK);
        }
    }

    fn write_all(&self, lines: &Receiver<Message>, mut to: impl Write) {
        loop {
            // Dropped lines are reported when there is room for one more.
            let next = lines.try_recv().or_else(|_| {
                self.report_dropped();
                lines.recv()
            });
            match next {
                Ok(Message::Line(line)) => {
                    // There is no other place to report a failure.
                    let _ = to.write_all(&line);
                }
                Ok(Message::Flush(written)) => {
                    // The report is a line, too.
                    let again = self.report_dropped().then(|| Message::Flush(written.clone()));
                    if again.is_none_or(|again| self.sender.try_send(again).is_err()) {
                        let _ = written.try_send(());
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Reports lines that were dropped; whether there were any.
    fn report_dropped(&self) -> bool {
        let count = self.dropped.swap(0, Relaxed);
        if count > 0 {
            tracing::warn!(count, "lines of the log were dropped: they were not read fast enough");
        }
        count > 0
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: self, bytes: Vec::new() }
    }
}

/// One line, which is queued when it is dropped.
pub(super) struct Line<'a> {
    lines: &'a Lines,
    bytes: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let line = Message::Line(take(&mut self.bytes));
        if self.lines.sender.try_send(line).is_err() {
            self.lines.dropped.fetch_add(1, Relaxed);
        }
    }
}

//! A worker: takes what waits for it, as much as there is, and decides it in one round.
//!
//! Each key belongs to one worker, so callers of one process never wait for each other's row locks,
//! and a hot key is one round at a time. There is no timer: a round takes whatever came while the
//! one before it was under way. While one round is written the next one is read already, behind it on
//! the same connection: the server never waits for the way back.

use core::sync::atomic::Ordering;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tollgate_core::Code;
use tollgate_core::store::patience::Progress;

use crate::fault::exhausted;
use crate::job::Job;
use crate::link::{Link, Shared};
use crate::retry::Retry;
use crate::round::{Closed, Opened, Round, Trip, abandon, close, open, refuse};

/// Admissions in one round: bounds how long locks are held.
pub(crate) const ROUND_MAX: usize = 1_000;

/// Decides until the store is closed or dropped.
pub(crate) async fn work(
    shared: Arc<Shared>,
    (mut jobs, progress): (mpsc::Receiver<Job>, Arc<Progress>),
    mut closing: watch::Receiver<bool>,
) {
    let mut link = None;
    let mut waiting = Vec::with_capacity(ROUND_MAX);
    loop {
        let taken = tokio::select! {
            biased;
            _ = closing.changed(), if !jobs.is_closed() => {
                // What is queued is still decided; nothing more comes in.
                jobs.close();
                continue;
            }
            taken = jobs.recv_many(&mut waiting, ROUND_MAX) => taken,
        };
        if taken == 0 {
            return;
        }
        let first = core::mem::take(&mut waiting);
        link = Shift::new((&shared, &progress), link).run(first, &mut jobs).await;
    }
}

/// Rounds one after another, as long as somebody waits.
struct Shift<'a> {
    shared: &'a Shared,
    /// For those who wait.
    progress: &'a Progress,
    /// The connection, unless it has to be made.
    link: Option<Link>,
    /// Whether it was there before, so that it may have died unseen.
    was_kept: bool,
    retry: Retry,
}

/// What is to be done next.
#[derive(Default)]
struct Next {
    /// A round that is to be written.
    round: Option<Round>,
    /// Those of the round that is to be read.
    jobs: Vec<Job>,
}

impl<'a> Shift<'a> {
    fn new((shared, progress): (&'a Shared, &'a Progress), link: Option<Link>) -> Self {
        let link = link.filter(Link::is_alive);
        let retry = Retry::new(&shared.config);
        Self { shared, progress, was_kept: link.is_some(), link, retry }
    }

    /// Works until nobody waits; the connection to go on with.
    async fn run(mut self, first: Vec<Job>, queue: &mut mpsc::Receiver<Job>) -> Option<Link> {
        let mut next = Next { round: None, jobs: first };
        loop {
            next.jobs.retain(Job::is_waiting);
            while next.jobs.len() < ROUND_MAX
                && let Ok(job) = queue.try_recv()
            {
                next.jobs.push(job);
            }
            if next.round.is_none() && next.jobs.is_empty() {
                return self.link;
            }
            let link = match self.link.take() {
                Some(link) => link,
                None => match self.shared.connect().await {
                    Ok(link) => link,
                    Err(error) => {
                        refuse(next.jobs, &error);
                        return None;
                    }
                },
            };
            next = self.step(link, next).await;
        }
    }

    /// Writes one round and reads the next; keeps the connection if it is still good.
    async fn step(&mut self, link: Link, next: Next) -> Next {
        let Next { round, jobs } = next;
        let trips = u64::from(round.is_some()) + u64::from(!jobs.is_empty());
        self.shared.trips.fetch_add(trips, Ordering::Relaxed);
        let trip = Trip { shared: self.shared, progress: self.progress, link: &link };
        let closing = async {
            match round {
                Some(round) => close(trip, round).await,
                None => Closed::Answered,
            }
        };
        let opening = async { if jobs.is_empty() { None } else { Some(open(trip, jobs).await) } };
        let (closed, opened) = tokio::join!(biased; closing, opening);
        match (closed, opened) {
            (Closed::Answered, None) => self.go_on(link, None),
            (Closed::Answered, Some(Opened::Ready(round))) => self.go_on(link, Some(*round)),
            (Closed::Answered, Some(Opened::Conflict(jobs))) => {
                self.after_conflict(link, true, jobs).await
            }
            (Closed::Conflict(jobs), opened) => {
                // Nobody overtakes: whoever came later waits for those who have to try again.
                // What failed in it leaves a transaction open, too.
                let is_open = opened.is_some();
                let jobs = jobs.into_iter().chain(self.salvage(opened)).collect();
                self.after_conflict(link, is_open, jobs).await
            }
            (Closed::Broken, opened) | (Closed::Answered, opened) => {
                // The connection goes; whatever was open on it is undone.
                drop(link);
                Next { round: None, jobs: self.salvage(opened) }
            }
        }
    }

    fn go_on(&mut self, link: Link, round: Option<Round>) -> Next {
        self.link = Some(link);
        self.was_kept = true;
        self.retry = Retry::new(&self.shared.config);
        Next { round, jobs: Vec::new() }
    }

    /// Waits a little before the same jobs are tried again.
    async fn after_conflict(&mut self, link: Link, is_open: bool, jobs: Vec<Job>) -> Next {
        if !is_open || abandon(self.shared, &link).await {
            self.link = Some(link);
        }
        if self.retry.again().await {
            return Next { round: None, jobs };
        }
        self.retry = Retry::new(&self.shared.config);
        refuse(jobs, &exhausted());
        Next::default()
    }

    /// Those of a round that was not written who may be tried again.
    fn salvage(&mut self, opened: Option<Opened>) -> Vec<Job> {
        match opened {
            None | Some(Opened::Refused) => Vec::new(),
            Some(Opened::Ready(round)) => round.into_jobs(),
            Some(Opened::Conflict(jobs)) => jobs,
            Some(Opened::Unserved(jobs, error)) => {
                // A connection that was kept may have died unseen: one more try with a new one.
                if core::mem::take(&mut self.was_kept) && error.code() != Code::Timeout {
                    return jobs;
                }
                refuse(jobs, &error);
                Vec::new()
            }
        }
    }
}

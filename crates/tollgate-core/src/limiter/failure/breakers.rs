//! One breaker for each server of a store, and the permission of a call to use its servers.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use super::breaker::{Breaker, BreakerConfig, Span};
use crate::error::{Code, Error, Result};
use crate::store::Endpoint;
use crate::time::Micros;

/// The breakers of a limiter.
#[derive(Debug)]
pub(in crate::limiter) struct Breakers {
    config: BreakerConfig,
    /// Most stores have one server: its breaker is reached without a lock.
    first: Breaker,
    /// By number, from the second on. Made when a server is used for the first time.
    others: RwLock<Vec<Arc<Breaker>>>,
    rejections: AtomicU64,
}

impl Breakers {
    pub(in crate::limiter) fn new(config: BreakerConfig) -> Self {
        let first = Breaker::new(config);
        Self { config, first, others: RwLock::default(), rejections: AtomicU64::new(0) }
    }

    pub(super) fn rejections(&self) -> u64 {
        self.rejections.load(Relaxed)
    }

    /// When the server that failed with this error may be called again.
    pub(super) fn closed_until(&self, error: &Error, now: Micros) -> Micros {
        self.of(error.refused_by().unwrap_or_default()).closed_until(now)
    }

    /// The reason of an error: the one of the outage, if a breaker refused the call.
    pub(super) fn reason<'e>(&self, error: &'e Error) -> Cow<'e, str> {
        match error.refused_by() {
            Some(endpoint) => self.of(endpoint).reason(error),
            None => Cow::Borrowed(error.message()),
        }
    }

    /// Permission for a call to all these servers, or the error of the first that refuses it.
    pub(super) fn pass(
        &self,
        endpoints: impl IntoIterator<Item = Endpoint>,
        now: Micros,
    ) -> Result<Passes<'_>> {
        let mut passes = Passes { first: None, others: Vec::new() };
        for endpoint in endpoints {
            if passes.of(endpoint).is_none() {
                passes.add(self.pass_one(endpoint, now)?);
            }
        }
        Ok(passes)
    }

    /// Permission for one call to one server.
    pub(super) fn pass_one(&self, endpoint: Endpoint, now: Micros) -> Result<Pass<'_>> {
        let breaker = self.of(endpoint);
        if let Some(is_probe) = breaker.enter(now) {
            return Ok(Pass { endpoint, breaker, is_probe });
        }
        self.rejections.fetch_add(1, Relaxed);
        let message = "the store did not answer lately; not called again yet";
        Err(Error::new(Code::StoreUnavailable, message).by_breaker(endpoint))
    }

    fn of(&self, endpoint: Endpoint) -> BreakerRef<'_> {
        let Some(place) = endpoint.place().checked_sub(1) else {
            return BreakerRef::First(&self.first);
        };
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(breaker) = others.get(place) {
            return BreakerRef::Other(Arc::clone(breaker));
        }
        drop(others);
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        while others.len() <= place {
            others.push(Arc::new(Breaker::new(self.config)));
        }
        others
            .get(place)
            .map_or(BreakerRef::First(&self.first), |one| BreakerRef::Other(Arc::clone(one)))
    }
}

#[derive(Debug)]
enum BreakerRef<'a> {
    First(&'a Breaker),
    Other(Arc<Breaker>),
}

impl core::ops::Deref for BreakerRef<'_> {
    type Target = Breaker;

    fn deref(&self) -> &Breaker {
        match self {
            Self::First(breaker) => breaker,
            Self::Other(breaker) => breaker,
        }
    }
}

/// What a call has shown about a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallOutcome<'e> {
    /// The server answered.
    Answered,
    /// It did not.
    Outage(&'e Error),
    /// The call ended before the server could show anything.
    Nothing,
}

/// Permission for one call to one server. Dropped without a report, it leaves the breaker as it
/// was.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    endpoint: Endpoint,
    breaker: BreakerRef<'a>,
    is_probe: bool,
}

impl Pass<'_> {
    pub(super) fn report(&self, outcome: CallOutcome<'_>, span: Span) {
        match outcome {
            CallOutcome::Answered => self.breaker.answered(),
            CallOutcome::Outage(why) => self.breaker.failed(self.is_probe, span, why),
            CallOutcome::Nothing => {}
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            self.breaker.end_probe();
        }
    }
}

/// Permission for one call to all its servers: mostly to one.
#[derive(Debug)]
pub(super) struct Passes<'a> {
    first: Option<Pass<'a>>,
    others: Vec<Pass<'a>>,
}

impl<'a> Passes<'a> {
    fn add(&mut self, pass: Pass<'a>) {
        match self.first {
            None => self.first = Some(pass),
            Some(_) => self.others.push(pass),
        }
    }

    fn of(&self, endpoint: Endpoint) -> Option<&Pass<'a>> {
        self.iter().find(|pass| pass.endpoint == endpoint)
    }

    fn iter(&self) -> impl Iterator<Item = &Pass<'a>> {
        self.first.iter().chain(&self.others)
    }

    /// Reports to all servers of a call. Where a call has several, it is not known which of them
    /// was silent: the next answers of the others correct it.
    pub(super) fn report(&self, outcome: CallOutcome<'_>, span: Span) {
        self.iter().for_each(|pass| pass.report(outcome, span));
    }
}

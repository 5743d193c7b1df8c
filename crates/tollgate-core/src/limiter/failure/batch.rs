//! A batch whose admissions may belong to several servers, some of which do not answer.
//!
//! The admissions of a server whose breaker is open are left out: they cost the others nothing. One
//! call of the store decides the rest, and each server is judged by its own admissions.

use std::borrow::Cow;

use super::answer::outcome_of;
use super::breakers::{CallOutcome, Pass};
use super::{Attempted, Breakers, FailurePolicy};
use crate::charge::{Admission, Charge};
use crate::error::{Error, Result};
use crate::limiter::builder::ClockSource;
use crate::store::{BatchResults, CallFacts, Endpoint, Evidence, Store, TimeSource};
use crate::time::Micros;

impl FailurePolicy {
    /// Calls the store for a batch: one answer for each admission, in order.
    pub(in crate::limiter) async fn call_many<S: Store>(
        &self,
        store: &S,
        (clock, now, time): (&ClockSource, Micros, TimeSource),
        batch: &[Admission<'_>],
    ) -> Vec<Result<Evidence>> {
        let _counted = match self.count_in() {
            Ok(counted) => counted,
            Err(error) => return batch.iter().map(|_| Err(error.clone())).collect(),
        };
        let servers = Servers::of(store, batch, (&self.breakers, now));
        let refused = servers.refused(batch.len());
        let sent = &*permitted(batch, &refused);
        if sent.is_empty() {
            return refused.into_iter().flatten().map(Err).collect();
        }
        let (facts, results) = (CallFacts::new(), BatchResults::new(sent.len()));
        let results = &results;
        let operation = |cx| async move {
            store.admit_many(sent, results, cx).await;
            results.completed()
        };
        let expired = || results.expired(&facts);
        let mut attempted = self.attempt((clock, now), (time, &facts), operation, expired).await;
        for (admission, answer) in sent.iter().zip(&mut attempted.answer) {
            if let Err(error) = answer {
                let keys = admission.charges().iter().map(Charge::key);
                *error = self.named(error.clone(), || self.late_answer(store, keys));
            }
        }
        servers.report(&refused, &attempted);
        let mut answers = attempted.answer.into_iter();
        // There is an answer for each admission that was sent.
        let answer = |refusal: Option<Error>| refusal.map(Err).or_else(|| answers.next());
        refused.into_iter().filter_map(answer).collect()
    }
}

/// The admissions without those that are refused.
fn permitted<'b, 'a>(
    batch: &'b [Admission<'a>],
    refused: &[Option<Error>],
) -> Cow<'b, [Admission<'a>]> {
    if refused.iter().all(Option::is_none) {
        return Cow::Borrowed(batch);
    }
    let is_sent = batch.iter().zip(refused).filter(|(_, refusal)| refusal.is_none());
    is_sent.map(|(admission, _)| *admission).collect()
}

/// The servers of a batch.
struct Servers<'a> {
    /// Each once, with the permission to call it or its refusal.
    passes: Vec<(Endpoint, Result<Pass<'a>>)>,
    /// Admissions and the places of their servers.
    users: Vec<(usize, usize)>,
}

impl<'a> Servers<'a> {
    fn of<S: Store>(
        store: &S,
        batch: &[Admission<'_>],
        (breakers, now): (&'a Breakers, Micros),
    ) -> Self {
        let (mut passes, mut users) = (Vec::new(), Vec::with_capacity(batch.len()));
        for (index, admission) in batch.iter().enumerate() {
            for charge in admission.charges() {
                let endpoint = store.endpoint(charge.key());
                let known = passes.iter().position(|(other, _)| *other == endpoint);
                let place = known.unwrap_or_else(|| {
                    passes.push((endpoint, breakers.pass_one(endpoint, now)));
                    passes.len() - 1
                });
                users.push((index, place));
            }
        }
        Self { passes, users }
    }

    /// The refusal of each admission, if one of its servers may not be called.
    fn refused(&self, len: usize) -> Vec<Option<Error>> {
        let mut refused: Vec<Option<Error>> = (0..len).map(|_| None).collect();
        for (index, place) in &self.users {
            let refusal = self.passes.get(*place).and_then(|(_, pass)| pass.as_ref().err());
            if let (Some(error), Some(slot)) = (refusal, refused.get_mut(*index)) {
                *slot = Some(error.clone());
            }
        }
        refused
    }

    /// Reports what each server has shown: it has answered if it answered anything.
    fn report(&self, refused: &[Option<Error>], attempted: &Attempted<Vec<Result<Evidence>>>) {
        let mut answers = attempted.answer.iter();
        let outcomes: Vec<CallOutcome<'_>> = refused
            .iter()
            .map(|refusal| match refusal {
                Some(_) => CallOutcome::Nothing,
                None => answers.next().map_or(CallOutcome::Nothing, outcome_of),
            })
            .collect();
        let mut shown: Vec<CallOutcome<'_>> =
            self.passes.iter().map(|_| CallOutcome::Nothing).collect();
        for (index, place) in &self.users {
            let (Some(outcome), Some(shown)) = (outcomes.get(*index), shown.get_mut(*place)) else {
                continue;
            };
            match (&shown, outcome) {
                (CallOutcome::Answered, _) | (CallOutcome::Outage(_), CallOutcome::Nothing) => {}
                _ => *shown = *outcome,
            }
        }
        for ((_, pass), outcome) in self.passes.iter().zip(shown) {
            pass.iter().for_each(|pass| pass.report(outcome, attempted.span));
        }
    }
}

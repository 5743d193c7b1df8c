//! Independent admissions that share a round trip.
//!
//! Calls go out in the order of the admissions, so those that share a key are applied in order.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_core::store::{BatchResults, CallContext, CallPermit, TimeSource, one_by_one};
use tollgate_core::{Admission, Result};

use super::admit::{Answered, Part, read};
use super::batch_decode::Decoder;
use super::batch_encode::{Item, ItemResult, call_of_key, calls_of};
use super::{Redis, Route};
use crate::error_reply::is_try_again;
use crate::transport::{Call, Reply, Transport};

/// What one call of a batch decides.
enum Sent {
    /// Single charges, and which admissions they are.
    Charges(Decoder, Arc<[usize]>),
    /// One admission.
    Admission(usize),
}

impl<T: Transport> Redis<T> {
    pub(super) async fn admit_batch(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let routes: Vec<Route<'_>> =
            batch.iter().map(|admission| self.0.route_of(admission)).collect();
        if !routes.iter().all(|route| matches!(route, Route::Queue(..) | Route::Script)) {
            return one_by_one(self, batch, results, cx).await;
        }
        let items: Vec<Option<Item>> = routes
            .into_iter()
            .map(|way| match way {
                Route::Queue(charge, step) => Some(self.0.item(charge, step, cx.time())),
                _ => None,
            })
            .collect();
        let contexts: Vec<_> = (0..batch.len()).map(|index| results.context(index, cx)).collect();
        contexts.iter().for_each(CallContext::waiting);
        let others_served = || contexts.iter().for_each(CallContext::others_served);
        let permit = self.0.runner.permit(others_served).await;
        contexts.iter().for_each(CallContext::sent);
        let calls = self.calls_of_batch(batch, &items, cx.time());
        let undecided = self.send_batch((calls, permit), batch, &items, results).await;
        // What one script could not decide is decided after the others, in order.
        for index in undecided {
            let Some(admission) = batch.get(index) else { continue };
            let cx = results.context(index, cx);
            results.set(index, Box::pin(self.admit_otherwise(admission, cx)).await);
        }
    }

    /// Sends calls, and then keys that have to be sent alone; returns the admissions that no script
    /// decided.
    async fn send_batch(
        &self,
        (mut to_send, permit): (Vec<(Call, Sent)>, Option<CallPermit<'_>>),
        batch: &[Admission<'_>],
        items: &[Option<Item>],
        results: &BatchResults,
    ) -> Vec<usize> {
        let runner = &self.0.runner;
        let mut undecided = Vec::new();
        let mut put = |index: usize, answer| match answer {
            ItemResult::Decided(evidence) => results.set(index, Ok(evidence)),
            ItemResult::Failed(error) => results.set(index, Err(error)),
            ItemResult::NotScripted => undecided.push(index),
        };
        while !to_send.is_empty() {
            let (mut calls, sent): (Vec<Call>, Vec<Sent>) = to_send.drain(..).unzip();
            let mut sent: Vec<Option<Sent>> = sent.into_iter().map(Some).collect();
            if share_a_key(&calls) {
                calls.iter_mut().for_each(|call| *call = call.with_text());
            }
            let replied = |index: usize, reply: Result<Reply>| {
                if reply.is_ok() {
                    permit.iter().for_each(CallPermit::answered);
                }
                match sent.get_mut(index).and_then(Option::take) {
                    Some(Sent::Charges(decoder, indices)) => {
                        let own = own(items, &indices);
                        let keys = decoder.read(&own, reply, |place, answer| {
                            put(indices.get(place).copied().unwrap_or(usize::MAX), answer);
                        });
                        to_send.extend(keys.into_iter().filter_map(|key| {
                            let (call, decoder) = call_of_key(key, &own, &runner.scripts)?;
                            Some((call, Sent::Charges(decoder, indices.clone())))
                        }));
                    }
                    Some(Sent::Admission(index)) => {
                        let answer = batch.get(index).map(|one| answer_of_admission(reply, one));
                        answer.into_iter().for_each(|answer| put(index, answer));
                    }
                    None => {}
                }
            };
            runner.send_all(&calls, replied).await;
        }
        undecided.sort_unstable();
        undecided
    }

    fn calls_of_batch(
        &self,
        batch: &[Admission<'_>],
        items: &[Option<Item>],
        at: TimeSource,
    ) -> Vec<(Call, Sent)> {
        let mut sent = Vec::new();
        let mut waiting: Vec<usize> = Vec::new();
        for (index, admission) in batch.iter().enumerate() {
            if items.get(index).is_some_and(Option::is_some) {
                waiting.push(index);
                continue;
            }
            self.flush(&mut waiting, items, &mut sent);
            let parts: Vec<Part<'_>> = admission.charges().iter().map(Part::Charge).collect();
            sent.push((self.0.admit_call(&parts, admission, at), Sent::Admission(index)));
        }
        self.flush(&mut waiting, items, &mut sent);
        sent
    }

    fn flush(
        &self,
        waiting: &mut Vec<usize>,
        items: &[Option<Item>],
        sent: &mut Vec<(Call, Sent)>,
    ) {
        let indices: Arc<[usize]> = core::mem::take(waiting).into();
        let runner = &self.0.runner;
        let calls = calls_of(&own(items, &indices), &runner.scripts, runner.has_slots());
        sent.extend(
            calls
                .into_iter()
                .map(|(call, decoder)| (call, Sent::Charges(decoder, indices.clone()))),
        );
    }
}

/// The items of these admissions.
fn own<'i>(items: &'i [Option<Item>], indices: &[usize]) -> Vec<&'i Item> {
    indices.iter().filter_map(|index| items.get(*index).and_then(Option::as_ref)).collect()
}

fn answer_of_admission(reply: Result<Reply>, admission: &Admission<'_>) -> ItemResult {
    if is_try_again(&reply) {
        return ItemResult::NotScripted;
    }
    match read(reply, admission.charges(), admission) {
        Ok(Answered::Decided(outcome) | Answered::Replayed(outcome)) => {
            ItemResult::Decided(outcome)
        }
        Ok(Answered::NotScripted) => ItemResult::NotScripted,
        Err(error) => ItemResult::Failed(error),
    }
}

/// Whether some key is in several calls. Those must run in order: a call whose script the server
/// lacks would be sent again after the others, so they carry the texts of their scripts.
fn share_a_key(calls: &[Call]) -> bool {
    let mut seen = HashSet::new();
    calls.iter().any(|call| {
        // A key that is twice in one call stays in order there.
        let own: HashSet<&str> = call.keys().iter().map(String::as_str).collect();
        own.into_iter().any(|key| !seen.insert(key))
    })
}

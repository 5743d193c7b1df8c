//! Independent admissions that share a round trip.
//!
//! Calls go out in the order of the admissions, so those that share a key are applied in order.

use core::pin::pin;
use std::collections::HashSet;
use std::sync::Arc;

use tollgate_core::store::patience::{self, or_cut_off};
use tollgate_core::store::{CallContext, Evidence, Store as _, TimeSource};
use tollgate_core::{Admission, Result};

use super::admit::{Answered, Part, read};
use super::items::{Answer, Item, call_apart, calls_of};
use super::take::Take;
use super::{RedisStore, Way};
use crate::late::replies_in_time;
use crate::transport::{Call, Reply, Transport};

/// What one call of a batch decides.
enum Sent {
    /// Single charges, and which admissions they are.
    Takes(Take, Arc<[usize]>),
    /// An admission of its own.
    Whole(usize),
}

impl<T: Transport> RedisStore<T> {
    pub(super) async fn admit_batch(
        &self,
        batch: &[Admission<'_>],
        cx: CallContext<'_>,
    ) -> Vec<Result<Evidence>> {
        let at = cx.time();
        let ways: Vec<Way<'_>> = batch.iter().map(|admission| self.0.way_of(admission)).collect();
        if !ways.iter().all(|way| matches!(way, Way::Queue(..) | Way::Script)) {
            return self.one_by_one(batch, cx).await;
        }
        let items: Vec<Option<Item>> = ways
            .into_iter()
            .map(|way| match way {
                Way::Queue(charge, step) => Some(self.0.item(charge, step, at)),
                _ => None,
            })
            .collect();
        let mut to_send = self.calls_of_batch(batch, &items, at);
        let mut answers: Vec<Option<Answer>> = batch.iter().map(|_| None).collect();
        while !to_send.is_empty() {
            let (mut calls, sent): (Vec<Call>, Vec<Sent>) = to_send.drain(..).unzip();
            if share_a_key(&calls) {
                calls.iter_mut().for_each(|call| *call = call.with_text());
            }
            let replies = replies_in_time(calls.len(), || self.0.wire.run_all(&calls)).await;
            for (sent, reply) in sent.into_iter().zip(replies) {
                match sent {
                    Sent::Takes(take, indices) => {
                        let tell = |place: usize, answer| {
                            let index = indices.get(place).copied().unwrap_or(usize::MAX);
                            set(&mut answers, index, answer);
                        };
                        let own = own(&items, &indices);
                        to_send.extend(take.read(&own, reply, tell).into_iter().map(|group| {
                            let (call, take) = call_apart(group, &own, &self.0.wire.scripts);
                            (call, Sent::Takes(take, indices.clone()))
                        }));
                    }
                    Sent::Whole(index) => {
                        let Some(admission) = batch.get(index) else { continue };
                        set(&mut answers, index, answer_of_whole(reply, admission));
                    }
                }
            }
        }
        self.settle(batch, answers, cx).await
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
            sent.push((self.0.admit_call(&parts, admission, at), Sent::Whole(index)));
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
        let wire = &self.0.wire;
        let takes = calls_of(&own(items, &indices), &wire.scripts, &wire.whereabouts());
        sent.extend(
            takes.into_iter().map(|(call, take)| (call, Sent::Takes(take, indices.clone()))),
        );
    }

    /// What a script could not decide is decided after the others, in order.
    async fn settle(
        &self,
        batch: &[Admission<'_>],
        answers: Vec<Option<Answer>>,
        cx: CallContext<'_>,
    ) -> Vec<Result<Evidence>> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for (admission, answer) in batch.iter().zip(answers) {
            outcomes.push(match answer {
                Some(Answer::Decided(outcome)) => Ok(outcome),
                Some(Answer::Failed(error)) => Err(error),
                Some(Answer::LookCloser) => {
                    // The server has answered the script.
                    or_cut_off(pin!(self.0.swapping.admit(admission, cx)), || true).await
                }
                None => Err(super::reply::unreadable()),
            });
        }
        outcomes
    }

    async fn one_by_one(
        &self,
        batch: &[Admission<'_>],
        cx: CallContext<'_>,
    ) -> Vec<Result<Evidence>> {
        patience::one_by_one(batch, |admission| self.admit(admission, cx)).await
    }
}

/// The items of these admissions.
fn own<'i>(items: &'i [Option<Item>], indices: &[usize]) -> Vec<&'i Item> {
    indices.iter().filter_map(|index| items.get(*index).and_then(Option::as_ref)).collect()
}

fn answer_of_whole(reply: Result<Reply>, admission: &Admission<'_>) -> Answer {
    match read(reply, admission.charges(), admission) {
        Ok(Answered::Decided(outcome) | Answered::Replayed(outcome)) => Answer::Decided(outcome),
        Ok(Answered::LookCloser) => Answer::LookCloser,
        Err(error) => Answer::Failed(error),
    }
}

/// Whether some key is in several calls. Those must run in order: a call that the server does not
/// know would be sent again after the others, so they bring their scripts along.
fn share_a_key(calls: &[Call]) -> bool {
    let mut seen = HashSet::new();
    calls.iter().any(|call| {
        // A key that is twice in one call stays in order there.
        let own: HashSet<&str> = call.keys().iter().map(String::as_str).collect();
        own.into_iter().any(|key| !seen.insert(key))
    })
}

fn set(answers: &mut [Option<Answer>], index: usize, answer: Answer) {
    if let Some(place) = answers.get_mut(index) {
        *place = Some(answer);
    }
}

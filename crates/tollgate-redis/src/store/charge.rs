//! Single charges: sent at once, or combined with those of other callers.
//!
//! A caller that finds no other in its queue sends its charge alone. Callers that arrive while two
//! calls are under way wait, and share the next round. When a round trip is so long that a caller
//! has no time to wait for the end of another one, rounds begin beside each other: callers that
//! come at once share one. A cluster has a queue for each slot, because only keys of one slot share
//! a call; a single server has one queue.

use std::sync::Arc;

use tollgate_core::Charge;
use tollgate_core::algorithm::ScriptedStep;
use tollgate_core::combine::{Combiner, Led, Limits, Permit, Round};
use tollgate_core::store::{CallContext, CallPermit};

use super::Inner;
use super::batch_encode::{Item, ItemResult, answer_of_one, call_of_key, call_of_one, calls_of};
use crate::slot::SLOTS;
use crate::transport::{Call, Transport};

/// While one round is computed, another one travels.
const LIMITS: Limits = Limits { waiting: 100_000, round: 1_000, concurrent: 2 };

/// The queues of a cluster, or of a single server.
pub(super) fn combiner(has_slots: bool) -> Arc<Combiner<Item, ItemResult>> {
    Combiner::new(if has_slots { usize::from(SLOTS) } else { 1 }, LIMITS)
}

impl<T: Transport> Inner<T> {
    /// Takes one charge.
    pub(super) async fn charge(
        self: &Arc<Self>,
        charge: &Charge<'_>,
        step: ScriptedStep,
        cx: CallContext<'_>,
    ) -> ItemResult {
        let name = self.runner.layout.name(&charge.key());
        let queue = self.runner.slot(&name).map_or(0, usize::from);
        // Alone it would hold up callers that have no time to wait for its end.
        let is_slow = self.combiner.is_slow_for(queue, cx);
        if !is_slow && let Some(permit) = self.combiner.try_enter(queue) {
            let call = call_of_one(charge, (name, step), cx.time(), &self.runner.scripts);
            let began = self.runner.now();
            let reply = self.runner.send(&call, cx).await;
            if reply.is_ok() {
                permit.answered_after(|| self.runner.now().saturating_sub(began));
            }
            self.release(permit);
            return answer_of_one(charge, reply);
        }
        let until = cx.time_left().map(|left| self.runner.now().saturating_add(left));
        let item = Item::new(charge, (name, step), cx.time()).until(until);
        let pending = match self.combiner.submit(queue, item, cx) {
            Ok(pending) => pending,
            Err(error) => return ItemResult::Failed(error),
        };
        let spawner = self.runner.transport.spawner();
        let answer = pending.answer_or_lead(|lead| {
            let inner = Arc::clone(self);
            match spawner {
                Some(spawn) if lead.len() > 1 => {
                    spawn(Box::pin(lead.run_all(move |round| Arc::clone(&inner).run(round))));
                    Led::elsewhere()
                }
                _ => lead.run_here(move |round| inner.run(round)),
            }
        });
        answer.await
    }

    /// Ends a call. Callers that wait share the next round, in a task if there can be one.
    fn release(self: &Arc<Self>, permit: Permit<'_, Item, ItemResult>) {
        let Some(spawn) = self.runner.transport.spawner() else { return drop(permit) };
        if let Some(lead) = permit.release() {
            let inner = Arc::clone(self);
            spawn(Box::pin(lead.run_all(move |round| Arc::clone(&inner).run(round))));
        }
    }

    /// Runs a round. Keys that the server refused because of others in their call are sent alone.
    async fn run(self: Arc<Self>, mut round: Round<Item, ItemResult>) {
        let permit = self.runner.permit(|| round.count_answered()).await;
        // Callers that others have delayed for too long are refused: sent, they would be charged
        // and not answered.
        let began = self.runner.now();
        let end = began.saturating_add(round.needed_duration());
        round.refuse_contended(|item| item.until.is_some_and(|until| until < end));
        round.mark_sent();
        let items: Vec<&Item> = round.jobs().collect();
        let scripts = &self.runner.scripts;
        let mut to_send = calls_of(&items, scripts, self.runner.has_slots());
        let (mut is_answered, mut is_served) = (false, false);
        while !to_send.is_empty() {
            let (calls, decoders): (Vec<Call>, Vec<_>) = to_send.drain(..).unzip();
            let mut decoders: Vec<_> = decoders.into_iter().map(Some).collect();
            let replied = |index: usize, reply: tollgate_core::Result<_>| {
                is_answered |= reply.is_ok();
                let Some(decoder) = decoders.get_mut(index).and_then(Option::take) else { return };
                let keys = decoder.read(&items, reply, |index, answer| {
                    is_served |= round.answer(index, answer);
                });
                let calls = keys.into_iter().filter_map(|key| call_of_key(key, &items, scripts));
                to_send.extend(calls);
            };
            self.runner.send_all(&calls, replied).await;
        }
        if is_answered {
            let took = self.runner.now().saturating_sub(began);
            round.record_duration(took);
            round.record_round(took, is_served);
            permit.iter().for_each(CallPermit::answered);
        }
        // A server that answers after the deadlines of all callers has served none of them.
        if is_served {
            round.count_answered();
        }
    }
}

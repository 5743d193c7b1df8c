//! The store: admissions become script calls, replies become evidence.
//!
//! - One charge without a request id waits in the queue and shares a call with others ([`queue`],
//!   [`items`]).
//! - Several charges, or a request id, are one script of their own ([`admit`]); over several slots of
//!   a cluster, several of them with an exact undo ([`across`]), which outlives its caller.
//! - What no script decides is decided in Rust and swapped in if nothing changed meanwhile: states of
//!   another quota, refunds, and what cannot be read ([`swap`]).
//! - Algorithms without a script go through WATCH, MULTI and EXEC ([`watch`]).

mod across;
mod admit;
mod batch;
mod flight;
mod gate;
mod items;
mod load;
#[cfg(feature = "client")]
mod open;
mod outlive;
mod place;
mod queue;
mod reply;
mod swap;
mod take;
#[cfg(test)]
mod tests;
mod watch;
mod wire;

use core::fmt;
use core::pin::pin;
use std::sync::Arc;

use tollgate_core::algorithm::ScriptedStep;
use tollgate_core::store::cas::Cas;
use tollgate_core::store::patience::{last_words, silent};
use tollgate_core::store::{
    BatchResults, CallContext, Capability, Evidence, Loaded, MultiKey, Store, TimeSource,
};
use tollgate_core::{Admission, Charge, Clock, Code, Error, Key, Operation, Result};

use crate::layout::KeyLayout;
use crate::meaning::is_sent_on;
use crate::transport::{Call, Sharing, Transport};

use flight::{Flight, Landing, Seated};
use items::{Answer, Item, answer_of, call_apart, call_of, calls_of, following};
use place::{Place, Whereabouts};
use queue::{Lane, Line, Queues, Round, Ticket, Turn};
use swap::Swapping;
use watch::Watching;
use wire::Wire;

/// Tollgate on Redis.
///
/// Decides by the server's clock, exactly, however many processes share it. Cheap to clone.
pub struct RedisStore<T: Transport>(Arc<Inner<T>>);

struct Inner<T> {
    wire: Arc<Wire<T>>,
    queues: Queues,
    swapping: Cas<Swapping<T>>,
    watching: Cas<Watching<T>>,
}

impl<T: Transport> RedisStore<T> {
    /// A store over a transport.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn over(transport: T) -> Self {
        Self::with_options(transport, KeyLayout::default(), tollgate_core::SystemClock::new())
    }

    /// A store over a transport, with keys laid out in a way of your choice. The clock is waited on
    /// between attempts of what is not scripted; it never decides.
    pub fn with_options(
        transport: T,
        layout: KeyLayout,
        clock: impl Clock + Clone + 'static,
    ) -> Self {
        let wire = Arc::new(Wire::new(transport, layout));
        Self(Arc::new(Inner {
            swapping: Cas::with_clock(Swapping(wire.clone()), clock.clone()),
            watching: Cas::with_clock(Watching(wire.clone()), clock),
            queues: Queues::new(wire.transport.sharing()),
            wire,
        }))
    }

    /// The transport.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.0.wire.transport
    }

    /// What is not one charge that is taken by a script.
    async fn admit_otherwise(
        &self,
        admission: &Admission<'_>,
        cx: CallContext<'_>,
    ) -> Result<Evidence> {
        if admission.charges().is_empty() {
            let message = "is empty; accepted: at least one charge";
            return Err(Error::invalid("charges", message).not_sent());
        }
        match self.0.way_of(admission) {
            Way::Script => self.0.admit(admission, cx).await,
            Way::Across => self.across(admission, cx.time()).await,
            Way::Queue(..) | Way::Swap => self.0.swapping.admit(admission, cx).await,
            Way::Watch => self.0.watch(admission, cx).await,
            Way::Mixed => Err(mixed()),
        }
    }

    /// Waits in the queue, or leads it.
    async fn wait(&self, lane: Lane, ticket: Arc<Ticket>) -> Answer {
        let inner = &self.0;
        let line = inner.queues.at(lane);
        let waiting = line.progress().wait();
        let seat = Seated { ticket, line };
        line.join(seat.ticket.clone());
        let flies_itself = inner.wire.transport.spawner().is_none();
        loop {
            let turn = pin!(line.turn(&seat.ticket, flies_itself));
            let held_up = || waiting.held_up().map(|error| Turn::Answered(Answer::Failed(error)));
            let round = match last_words(turn, held_up).await {
                Turn::Answered(answer) => return answer,
                Turn::Lead(round) => round,
                Turn::TooLate => {
                    return Answer::Failed(waiting.held_up().unwrap_or_else(silent));
                }
            };
            // Alone there is nobody else to look after.
            let is_alone = matches!(&*round, [only] if Arc::ptr_eq(only, &seat.ticket));
            match inner.wire.transport.spawner() {
                Some(spawn) if !is_alone => spawn(Box::pin(Flight::new(inner, lane, round).run())),
                _ => {
                    let landing = Landing { inner, lane, size: round.len() };
                    Box::pin(inner.send(line, Round(round))).await;
                    drop(landing);
                }
            }
        }
    }
}

/// How a single charge begins.
enum Begun<'i, T: Transport> {
    /// It meets nobody, and goes at once.
    Alone(Landing<'i, T>, Call),
    /// Others are under way.
    Queued(Lane, Arc<Ticket>),
}

/// How an admission is decided.
enum Way<'a> {
    /// One charge that is taken, and its step.
    Queue(&'a Charge<'a>, ScriptedStep),
    Script,
    Across,
    Swap,
    Watch,
    Mixed,
}

impl<T: Transport> Inner<T> {
    fn way_of<'a>(&self, admission: &'a Admission<'a>) -> Way<'a> {
        let charges = admission.charges();
        if let ([charge], None) = (charges, admission.request_id)
            && charge.operation == Operation::Take
            && let Some(step) = charge.rule().scripted_step()
        {
            return Way::Queue(charge, step);
        }
        let scripted =
            charges.iter().filter(|charge| charge.rule().scripted_step().is_some()).count();
        if scripted == 0 {
            return Way::Watch;
        }
        if scripted < charges.len() {
            return Way::Mixed;
        }
        if self.spans_slots(charges) {
            return Way::Across;
        }
        let is_plain = charges.iter().all(|charge| charge.operation == Operation::Take);
        if is_plain && admit::one_quota_per_key(charges) { Way::Script } else { Way::Swap }
    }

    /// Goes at once if nobody waits.
    fn begin<'i>(
        self: &'i Arc<Self>,
        charge: &Charge<'_>,
        step: ScriptedStep,
        at: TimeSource,
    ) -> Begun<'i, T> {
        let key = charge.key();
        let name = self.wire.layout.name(&key);
        let slot = self.wire.has_slots().then(|| self.wire.layout.slot(&key, &name));
        let place = slot.map_or(Place::Anywhere, |slot| self.wire.whereabouts().of_slot(slot));
        let lane = self.queues.lane(place);
        if self.queues.at(lane).lift_off_alone() {
            // From here on, whatever happens.
            let landing = Landing { inner: self, lane, size: 0 };
            let call = call_of(charge, (name, slot, step), at, &self.wire.scripts);
            return Begun::Alone(landing, call);
        }
        Begun::Queued(lane, Ticket::new(Item::new(charge, (name, step), at)))
    }

    fn item(&self, charge: &Charge<'_>, step: ScriptedStep, at: TimeSource) -> Item {
        Item::new(charge, (self.wire.layout.name(&charge.key()), step), at)
    }

    fn spans_slots(&self, charges: &[Charge<'_>]) -> bool {
        let mut slots =
            charges.iter().map(|charge| self.wire.slot(&self.wire.layout.name(&charge.key())));
        let first = slots.next().flatten();
        slots.any(|slot| slot != first)
    }

    /// Sends a round and hands everybody their answer. Keys that have to be asked for alone leave the round,
    /// where that is possible: whoever serves them may hang, and the next round is not to wait for it.
    async fn send(self: &Arc<Self>, line: Line<'_>, mut round: Round) {
        let items: Vec<&Item> = round.0.iter().map(|ticket| &ticket.item).collect();
        let scripts = &self.wire.scripts;
        let mut to_send = calls_of(&items, scripts, &self.wire.whereabouts());
        let mut strays = Vec::new();
        while !to_send.is_empty() {
            let (calls, takes): (Vec<Call>, Vec<_>) = to_send.drain(..).unzip();
            let replies = line.progress().round(self.wire.run_all(&calls)).await;
            if replies.iter().any(Result::is_ok) {
                line.was_heard();
            }
            let mut apart = Vec::new();
            for (take, reply) in takes.into_iter().zip(replies) {
                apart.extend(take.read(&items, reply, |index, answer| round.answer(index, answer)));
            }
            if !apart.is_empty() {
                // The cluster has answered those who go on waiting.
                line.progress().round_ended();
            }
            if let Some(spawn) = self.wire.transport.spawner() {
                strays.extend(apart.iter().map(|group| (spawn, round.part(group.items()))));
            } else {
                let apart = apart.into_iter().map(|group| call_apart(group, &items, scripts));
                to_send.extend(apart);
            }
        }
        // All others are answered.
        round.0.clear();
        for (spawn, round) in strays {
            spawn(Box::pin(Arc::clone(self).send_apart(round)));
        }
    }

    /// Sends the charges of a key that is alone in its calls.
    async fn send_apart(self: Arc<Self>, round: Round) {
        let items: Vec<&Item> = round.0.iter().map(|ticket| &ticket.item).collect();
        let calls = calls_of(&items, &self.wire.scripts, &Whereabouts::anywhere());
        for (call, take) in calls.into_iter().map(following) {
            let reply = self.wire.run(&call).await;
            take.read(&items, reply, |index, answer| round.answer(index, answer));
        }
    }
}

fn mixed() -> Error {
    let message = "algorithms with and without a script cannot be charged together on Redis; \
                   give each of them a script, or none";
    Error::new(Code::Unsupported, message).not_sent()
}

impl<T: Transport> Store for RedisStore<T> {
    fn capability(&self) -> Capability {
        let mut capability = Capability::default();
        capability.exact = true;
        capability.durable = true;
        capability.own_clock = true;
        capability.scripted = true;
        capability.idempotent = true;
        capability.multi_key = match self.transport().sharing() {
            Sharing::AnyKeys => MultiKey::Atomic,
            Sharing::SameSlot => MultiKey::Compensated,
        };
        capability
    }

    /// All ways but the queue are boxed: they are long, and whoever waits for an answer would hold all of
    /// them.
    async fn admit(&self, admission: &Admission<'_>, cx: CallContext<'_>) -> Result<Evidence> {
        let inner = &self.0;
        let Way::Queue(charge, step) = inner.way_of(admission) else {
            return Box::pin(self.admit_otherwise(admission, cx)).await;
        };
        let answer = 'answer: {
            let (landing, call) = match inner.begin(charge, step, cx.time()) {
                Begun::Alone(landing, call) => (landing, call),
                Begun::Queued(lane, ticket) => break 'answer self.wait(lane, ticket).await,
            };
            let reply = inner.wire.run(&call).await;
            if !is_sent_on(&reply) {
                break 'answer landing.answer(charge, reply);
            }
            // Whoever serves it may hang, and nobody else is to wait for that.
            drop(landing);
            let call = call.following();
            answer_of(charge, Box::pin(inner.wire.run(&call)).await)
        };
        match answer {
            Answer::Decided(outcome) => Ok(outcome),
            Answer::Failed(error) => Err(error),
            Answer::LookCloser => Box::pin(inner.swapping.admit(admission, cx)).await,
        }
    }

    async fn admit_many(
        &self,
        batch: &[Admission<'_>],
        results: &BatchResults,
        cx: CallContext<'_>,
    ) {
        let answers = self.admit_batch(batch, cx).await;
        answers.into_iter().enumerate().for_each(|(index, answer)| results.set(index, answer));
    }

    async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        self.0.wire.load(charges, cx.time()).await
    }

    async fn reset(&self, key: Key<'_>, _: CallContext<'_>) -> Result<()> {
        let wire = &self.0.wire;
        let call = Call::new(
            wire.scripts.forget.clone(),
            vec![wire.layout.name(&key)],
            crate::transport::Args::default(),
        );
        wire.run(&call).await?.ok().map(drop)
    }

    async fn close(&self) {
        self.transport().close().await;
    }

    fn round_trips(&self) -> Option<u64> {
        Some(self.0.wire.trips())
    }
}

impl<T: Transport> Clone for RedisStore<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Transport> fmt::Debug for RedisStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("sharing", &self.transport().sharing())
            .field("layout", &self.0.wire.layout)
            .finish_non_exhaustive()
    }
}

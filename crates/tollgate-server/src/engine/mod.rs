//! The one engine behind all protocols: a request in, a decision out.
//!
//! It finds the policy, makes the charges, asks the limiter, and says the answer in the words of the
//! policy. It knows no wire format, and what happens in an outage is the limiter's business.

mod answer;
mod ask;
mod names;
mod ready;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tollgate::store::{BoxStore, Capability, Store};
use tollgate::{
    Admission, Charge, Clock, Code, Decision, Error, Forecast, Limiter, Receipt, RequestId,
    SystemClock,
};

use crate::metrics::Metrics;
use crate::policy::{Asked, Policies};
use crate::trace::{self, Traces};

use ready::Readiness;

pub use answer::{Answer, Failure, Limits, Refund};
pub use ask::{Ask, BATCH_MAX, KEY_MAX_BYTES, Target, accept_batch};
pub use names::KeyNames;

/// `Result` with the engine's [`Failure`].
pub type Result<T, E = Failure> = core::result::Result<T, E>;

/// Decides requests of every protocol, under policies that can be replaced while it works.
#[derive(Debug)]
pub struct Engine {
    limiter: Limiter<BoxStore>,
    policies: ArcSwap<Policies>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    names: KeyNames,
    traces: Option<Arc<Traces>>,
    readiness: Readiness,
}

impl Engine {
    /// An engine over a limiter. Keys are not written down unless somebody says how.
    #[must_use]
    pub fn new(limiter: Limiter<BoxStore>, policies: Policies) -> Self {
        let (policies, clock) = (ArcSwap::from_pointee(policies), Arc::new(SystemClock::new()));
        let (metrics, names) = (Metrics::new(), KeyNames::hidden());
        let readiness = Readiness::default();
        Self { limiter, policies, clock, metrics, names, traces: None, readiness }
    }

    /// The same engine with another clock: the one of its limiter.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The same engine, counted elsewhere.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// The same engine with other names for keys in logs and traces.
    #[must_use]
    pub fn with_key_names(mut self, names: KeyNames) -> Self {
        self.names = names;
        self
    }

    /// The same engine, whose requests are traced.
    #[must_use]
    pub fn with_traces(mut self, traces: Option<Arc<Traces>>) -> Self {
        self.traces = traces;
        self
    }

    /// Charges a key, if its policy allows it.
    ///
    /// # Errors
    /// When the request is wrong, or no decision could be made.
    pub async fn acquire(&self, ask: Ask<'_>) -> Result<Answer> {
        let answer = self.decide(ask).await;
        self.answered(&ask, &answer);
        if self.traces.is_some() {
            trace::note(&ask, &answer, &self.names);
        }
        answer
    }

    async fn decide(&self, ask: Ask<'_>) -> Result<Answer> {
        let policies = self.policies.load_full();
        let asked = accept(&policies, &ask)?;
        let charges = asked.charges(ask.cost);
        let decided = self.limiter.check(admission(&charges, ask.request_id)?).await;
        self.conclude_charge(&asked, decided)
    }

    /// What became of a charge. A shadow lets pass as well what could not be decided.
    fn conclude_charge(
        &self,
        asked: &Asked<'_>,
        decided: tollgate::Result<Decision>,
    ) -> Result<Answer> {
        match decided {
            Err(error) if asked.is_shadow() && answer::is_of_service(error.code()) => {
                self.metrics.failed(error.code());
                let undecided = Decision::denied(asked.ceiling(), 0, self.now_ms_up(), 0);
                Ok(asked.answer(undecided))
            }
            decided => conclude(asked, decided),
        }
    }

    /// Charges several keys independently and in order, sharing round trips to the store.
    ///
    /// # Errors
    /// Each element fails on its own.
    pub async fn acquire_many(&self, asks: &[Ask<'_>]) -> Vec<Result<Answer>> {
        let policies = self.policies.load_full();
        let asked: Vec<Result<Asked<'_>>> = asks.iter().map(|ask| accept(&policies, ask)).collect();
        let charges: Vec<Vec<Charge<'_>>> = asked
            .iter()
            .zip(asks)
            .map(|(asked, ask)| {
                asked.as_ref().map_or_else(|_| Vec::new(), |it| it.charges(ask.cost))
            })
            .collect();
        let admissions: Vec<Result<Admission<'_>>> = charges
            .iter()
            .zip(asks)
            .map(|(charges, ask)| admission(charges, ask.request_id))
            .collect();
        let both = asked.iter().zip(&admissions);
        let batch: Vec<Admission<'_>> = both
            .clone()
            .filter_map(|(asked, admission)| asked.as_ref().ok().and(admission.as_ref().ok()))
            .copied()
            .collect();
        let mut decided = self.limiter.check_batch(&batch).await.into_iter();
        let mut answer = |asked: &Asked<'_>| {
            self.conclude_charge(asked, decided.next().unwrap_or_else(|| Err(unanswered())))
        };
        let answers = both
            .map(|(asked, admission)| match (asked, admission) {
                (Ok(asked), Ok(_)) => answer(asked),
                (Err(failure), _) | (_, Err(failure)) => Err(failure.clone()),
            })
            .zip(asks)
            .map(|(answer, ask)| {
                self.answered(ask, &answer);
                answer
            });
        let answers: Vec<Result<Answer>> = answers.collect();
        if self.traces.is_some() {
            trace::note_batch(&answers);
        }
        answers
    }

    /// What [`Engine::acquire`] would answer, without charging anything.
    ///
    /// # Errors
    /// When the request is wrong, or the store cannot answer.
    pub async fn peek(&self, ask: Ask<'_>) -> Result<Answer> {
        let policies = self.policies.load_full();
        let asked = accept(&policies, &ask)?;
        conclude(&asked, self.limiter.peek(&asked.charges(ask.cost)).await)
    }

    /// What a key could spend, and when more.
    ///
    /// # Errors
    /// When the request is wrong, or the store cannot answer.
    pub async fn forecast(&self, ask: Ask<'_>) -> Result<Forecast> {
        let policies = self.policies.load_full();
        let asked = accept(&policies, &ask)?;
        Ok(self.limiter.forecast(&asked.charges(ask.cost)).await?)
    }

    /// Which limits apply to a key, in numbers. The store is not asked.
    ///
    /// # Errors
    /// When the request is wrong.
    pub fn limits(&self, ask: Ask<'_>) -> Result<Limits> {
        let policies = self.policies.load_full();
        let asked = accept(&policies, &ask)?;
        let (policy, limits) = (asked.name().clone(), asked.described());
        Ok(Limits { policy, limits, shadow: asked.is_shadow() })
    }

    /// Gives back at most what was charged and is still counted: of the charge whose decision said
    /// this `reset_at_ms`, or else of the newest units.
    ///
    /// # Errors
    /// When the request is wrong, or the store cannot answer.
    pub async fn refund(&self, ask: Ask<'_>, reset_at_ms: Option<u64>) -> Result<Refund> {
        let policies = self.policies.load_full();
        let asked = accept(&policies, &ask)?;
        let charges = asked.charges(ask.cost);
        let receipt = match (reset_at_ms, &*charges) {
            (None, _) => Receipt::Newest,
            (Some(at), [_]) => Receipt::Until(at.saturating_mul(1_000)),
            (Some(_), _) => {
                let accepted = "names no charge of a policy with several limits; leave it out";
                return Err(Error::invalid("reset_at_ms", accepted).into());
            }
        };
        let charges: Vec<Charge<'_>> =
            charges.iter().map(|charge| charge.refund(receipt)).collect();
        let refunded = self.limiter.refund(admission(&charges, ask.request_id)?).await?;
        let (units, standing) = (refunded.units, refunded.standing);
        Ok(Refund { policy: asked.name().clone(), units, standing })
    }

    /// Forgets what a key has spent.
    ///
    /// # Errors
    /// When the request is wrong, or the store cannot answer.
    pub async fn reset(&self, ask: Ask<'_>) -> Result<()> {
        let policies = self.policies.load_full();
        let asked = accept(&policies, &ask)?;
        self.limiter.reset(&asked.charges(ask.cost)).await?;
        tracing::info!(policy = %asked.name(), key = self.names.of(ask.key), "a key was reset");
        Ok(())
    }

    /// Counts an answer; who looks for every single one finds it in the log.
    fn answered(&self, ask: &Ask<'_>, answer: &Result<Answer>) {
        self.metrics.answered(answer);
        match answer {
            Ok(Answer { policy, decision, shadow }) => tracing::debug!(
                %policy,
                key = self.names.of(ask.key),
                cost = ask.cost.get(),
                verdict = shadow.unwrap_or(decision.verdict).as_str(),
                remaining = decision.remaining,
                retry_after_ms = decision.retry_after_ms,
                degraded = decision.degraded.map(|mode| mode.as_str()),
                shadow = shadow.is_some(),
                "decided"
            ),
            Err(Failure { error, .. }) => tracing::debug!(
                key = self.names.of(ask.key),
                code = error.code().as_str(),
                field = error.field(),
                "not decided"
            ),
        }
    }

    /// Epoch milliseconds by the clock of this process, rounded up as instants in decisions are.
    #[must_use]
    pub fn now_ms_up(&self) -> u64 {
        self.clock.now().div_ceil(1_000)
    }

    /// Decides under other policies from now on. What keys have spent stays spent; requests that
    /// have begun end under the policies they began with.
    pub fn replace_policies(&self, policies: Policies) {
        self.metrics.reloaded("applied");
        self.policies.store(Arc::new(policies));
    }

    /// Counts a configuration that was refused, so that somebody notices.
    pub fn refuse_policies(&self) {
        self.metrics.reloaded("refused");
    }

    /// The policies that apply now.
    #[must_use]
    pub fn policies(&self) -> Arc<Policies> {
        self.policies.load_full()
    }

    /// What is counted.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Where requests are traced to, if they are.
    #[must_use]
    pub(crate) fn traces(&self) -> Option<&Traces> {
        self.traces.as_deref()
    }

    /// All that is counted, as text.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.metrics.text(self.limiter.stats(), self.limiter.store().round_trips())
    }

    /// Whether the store answers. It is asked at most once per second, however many want to know.
    ///
    /// # Errors
    /// What it says instead.
    pub async fn ready(&self) -> Result<()> {
        let probe = async {
            let policies = self.policies.load_full();
            self.limiter.forecast(policies.ad_hoc().charge("readyz")).await?;
            Ok(())
        };
        self.readiness.get(self.clock.now(), probe).await
    }

    /// What the store can do.
    #[must_use]
    pub fn capability(&self) -> Capability {
        self.limiter.store().capability()
    }

    /// Closes the store, and sends the last traces.
    pub async fn close(&self) {
        self.limiter.store().close().await;
        if let Some(traces) = &self.traces {
            traces.finish().await;
        }
    }
}

/// Finds the limits that a request is decided under.
fn accept<'a>(policies: &'a Policies, ask: &Ask<'a>) -> Result<Asked<'a>> {
    ask::accept_key(ask.key)?;
    if let Some(id) = ask.request_id {
        RequestId::new(id)?;
    }
    match ask.target {
        Target::Policy(name) => Ok(policies.find(name)?.ask(ask.key)),
        Target::Limit(limit) => Ok(Asked::of_limit(limit, ask.key)),
    }
}

fn admission<'a>(charges: &'a [Charge<'a>], id: Option<&'a str>) -> Result<Admission<'a>> {
    let admission = Admission::of(charges);
    Ok(match id {
        Some(id) => admission.request_id(RequestId::new(id)?),
        None => admission,
    })
}

/// The decision in the words of the policy.
fn conclude(asked: &Asked<'_>, decided: tollgate::Result<Decision>) -> Result<Answer> {
    let decision = decided?;
    match Failure::of_closed(&decision) {
        Some(refused) if !asked.is_shadow() => Err(refused),
        _ => Ok(asked.answer(decision)),
    }
}

/// A batch that came back shorter than it went.
pub(crate) fn unanswered() -> Error {
    Error::new(Code::CorruptState, "a decision of the batch is missing")
}

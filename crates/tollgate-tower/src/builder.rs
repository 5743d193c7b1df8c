//! How a layer is put together.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tollgate::{Error, Limit, Outage, OutageMode, Result};
use tollgate_http::{Dialect, QuotaPolicy, RateLimitFields};

use crate::decide::Decide;
use crate::event::Event;
use crate::extract::Extract;
use crate::gate::Gate;
use crate::head::Head;
use crate::keyed::Keyed;
use crate::layer::RateLimitLayer;
use crate::reply::Refusal;

/// How long a request is held back at most, unless told otherwise.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// Sets what a [`RateLimitLayer`] does.
#[must_use]
pub struct RateLimitBuilder<D> {
    gate: Gate<D>,
    dialects: Vec<Dialect>,
}

impl<D: Decide> RateLimitBuilder<D> {
    pub(crate) fn new(decider: D) -> Self {
        let gate = Gate {
            decider,
            keyed: Vec::new(),
            skip: Vec::new(),
            fields: RateLimitFields::none(),
            listener: None,
            customize: None,
            max_delay: MAX_DELAY,
            is_shadow: false,
        };
        Self { gate, dialects: vec![Dialect::Draft11] }
    }

    /// Adds a limit: one unit per request, charged to whom the extractor finds. All limits of a
    /// layer are charged together or not at all.
    pub fn limit(self, limit: Limit, extract: impl Extract + 'static) -> Self {
        self.keyed(Keyed::new(limit, extract))
    }

    /// Adds a limit with a cost, a settlement or a delay of its own.
    pub fn keyed(mut self, keyed: Keyed) -> Self {
        self.gate.keyed.push(keyed);
        self
    }

    /// What all limits so far do when the store cannot answer; each has its own mode otherwise.
    pub fn on_outage(self, mode: OutageMode) -> Self {
        self.map_limits(|limit| limit.on_outage(mode))
    }

    /// Chooses the mode of all limits so far anew for every decision that the store could not make:
    /// the place to log outages, too.
    pub fn choose_on_outage(
        self,
        choose: impl Fn(&Outage<'_>) -> OutageMode + Send + Sync + 'static,
    ) -> Self {
        let choose = Arc::new(choose);
        self.map_limits(|limit| {
            let choose = Arc::clone(&choose);
            limit.choose_on_outage(move |outage| choose(outage))
        })
    }

    /// Lets requests through unseen for which the rule holds: health checks, allow lists. Nothing is
    /// charged for them.
    pub fn skip(mut self, rule: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.gate.skip.push(Box::new(rule));
        self
    }

    /// Only watches: charges and tells, but refuses, delays and stamps nothing.
    pub fn shadow(mut self) -> Self {
        self.gate.is_shadow = true;
        self
    }

    /// How the quota is stated in responses, allowed or refused; nothing turns it off.
    pub fn headers(mut self, dialects: impl IntoIterator<Item = Dialect>) -> Self {
        self.dialects = dialects.into_iter().collect();
        self
    }

    /// Changes the response to a refused request, which is complete already.
    pub fn respond_with(
        mut self,
        change: impl Fn(&Refusal<'_>, Response<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.gate.customize = Some(Box::new(change));
        self
    }

    /// Tells what happens to each request, for logs and metrics. It must not wait.
    pub fn on_event(mut self, listener: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.gate.listener = Some(Box::new(listener));
        self
    }

    /// How long a request is held back at most, 10 seconds by default. A request whose turn in a
    /// shaper is later is refused, and its turn is given back.
    pub fn max_delay(mut self, max: Duration) -> Self {
        self.gate.max_delay = max;
        self
    }

    /// The layer.
    ///
    /// # Errors
    /// `config_invalid` naming the field: `limits` when there is none or two share their names,
    /// `headers` when two dialects share a field.
    pub fn build(mut self) -> Result<RateLimitLayer<D>> {
        let limits: Vec<&Limit> = self.gate.keyed.iter().map(|keyed| &keyed.limit).collect();
        if limits.is_empty() {
            return Err(Error::config("limits", "there is none; accepted: one or more"));
        }
        for (index, one) in limits.iter().enumerate() {
            let names = |limit: &Limit| (limit.prefix().clone(), limit.policy().clone());
            if limits.iter().take(index).any(|other| names(other) == names(one)) {
                let message = format!("two are named {}; accepted: distinct names", one.policy());
                return Err(Error::config("limits", message));
            }
        }
        let policies: Vec<_> =
            limits.iter().map(|limit| QuotaPolicy::new(limit.policy().as_str(), limit)).collect();
        self.gate.fields = RateLimitFields::new(self.dialects, &policies)?;
        Ok(RateLimitLayer::of(self.gate))
    }

    fn map_limits(mut self, change: impl Fn(Limit) -> Limit) -> Self {
        let keyed = self.gate.keyed.into_iter();
        self.gate.keyed = keyed.map(|keyed| keyed.map_limit(&change)).collect();
        self
    }
}

impl<D> fmt::Debug for RateLimitBuilder<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitBuilder").field("gate", &self.gate).finish_non_exhaustive()
    }
}

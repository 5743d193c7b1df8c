//! Reading without charging: what a check would answer, and what a key could spend when.
//!
//! All keys are read at one instant, and nothing is written. The answer is never degraded: a guess
//! would be taken for the state of a key.

use super::{Limiter, derive, keys_of, not_empty};
use crate::charge::{Admission, Charge};
use crate::cost::Cost;
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::state::{State, Words};
use crate::store::{CallFacts, Evidence, Loaded, Store, words_under};

impl<S: Store> Limiter<S> {
    /// The decision for charges on different keys, without charging any of them. A request id does
    /// not matter.
    ///
    /// # Errors
    /// When the store cannot answer: a peek is never degraded.
    pub async fn peek<'a>(&self, charges: impl Into<Admission<'a>>) -> Result<Decision> {
        let admission = charges.into();
        let charges = admission.charges();
        peeked(charges, self.load(charges).await?)
    }

    /// What could be spent under the limits of these charges at once, and when more, if nothing
    /// else is spent. The costs of the charges do not matter, nor does a request id.
    ///
    /// # Errors
    /// When the store cannot answer: a forecast is never degraded.
    pub async fn forecast<'a>(&self, charges: impl Into<Admission<'a>>) -> Result<Forecast> {
        let admission = charges.into();
        let charges = admission.charges();
        forecasted(charges, self.load(charges).await?)
    }

    async fn load(&self, charges: &[Charge<'_>]) -> Result<Loaded> {
        not_empty(charges)?;
        let now = self.clock.now();
        let (facts, keys) = (CallFacts::new(), keys_of(charges));
        self.call(now, &facts, keys, |cx| self.store.load(charges, cx)).await
    }
}

/// The decision for charges whose keys were read.
pub(super) fn peeked(charges: &[Charge<'_>], loaded: Loaded) -> Result<Decision> {
    let now = loaded.now;
    let granted = would_grant(charges, &loaded)?;
    let exact = charges.iter().zip(&granted).map(|(charge, granted)| match granted {
        Some(units) => charge.cost(*units),
        None => *charge,
    });
    let decide = |charge: &Charge<'_>, words: Words| charge.rule().peek(&words, now, charge.cost);
    let decisions = read(&exact.collect::<Vec<_>>(), loaded, decide)?;
    let granting = |(decision, units): (Decision, _)| decision.granting(units);
    let decisions = decisions.into_iter().zip(granted).map(granting).collect();
    let merged = derive::merge(charges, decisions).ok_or_else(derive::no_evidence)?;
    Ok(merged.uncharged())
}

/// What each range would be granted.
fn would_grant(charges: &[Charge<'_>], loaded: &Loaded) -> Result<Vec<Option<Cost>>> {
    if charges.iter().all(|charge| charge.range().is_none()) {
        return Ok(vec![None; charges.len()]);
    }
    let evidence = Evidence::decided(loaded.now, loaded.states.clone());
    let planned = derive::run(charges, &evidence)?;
    Ok(planned.decisions.iter().map(Decision::granted).collect())
}

/// What could be spent on keys that were read.
pub(super) fn forecasted(charges: &[Charge<'_>], loaded: Loaded) -> Result<Forecast> {
    let now = loaded.now;
    let forecasts = read(charges, loaded, |charge, words| charge.rule().forecast(&words, now))?;
    scarcest(&forecasts).ok_or_else(derive::no_evidence)
}

/// What each charge makes of the state of its key.
fn read<T>(
    charges: &[Charge<'_>],
    loaded: Loaded,
    view: impl Fn(&Charge<'_>, Words) -> T,
) -> Result<Vec<T>> {
    // A state that is missing must never pass for a fresh key.
    if loaded.states.len() != charges.len() {
        return Err(derive::no_evidence());
    }
    let of = |(charge, state): (&Charge<'_>, Option<State>)| {
        words_under(charge.rule(), state.as_ref(), loaded.now).map(|words| view(charge, words))
    };
    charges.iter().zip(loaded.states).map(of).collect()
}

/// What all limits together let through: as much as the scarcest, and one more unit when every one
/// of the scarcest has it.
fn scarcest(forecasts: &[Forecast]) -> Option<Forecast> {
    let spendable_now = forecasts.iter().map(|one| one.spendable_now).min()?;
    let scarce = forecasts.iter().filter(|one| one.spendable_now == spendable_now);
    // A limit that is full and scarcest never has more: then there is no next unit.
    let next = scarce.map(|one| one.next_unit_at_ms).collect::<Option<Vec<u64>>>();
    Some(Forecast::new(
        forecasts.iter().map(|one| one.limit).min()?,
        spendable_now,
        next.and_then(|instants| instants.into_iter().max()),
        forecasts.iter().map(|one| one.full_at_ms).max()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::{Forecast, scarcest};

    #[test]
    fn the_next_unit_comes_when_every_scarce_limit_has_one() {
        let plenty = Forecast::new(100, 50, Some(1), 90);
        let scarce = Forecast::new(10, 3, Some(7), 70);
        let later = Forecast::new(20, 3, Some(9), 80);
        let full = Forecast::new(3, 3, None, 5);
        assert_eq!(scarcest(&[plenty, scarce]), Some(Forecast::new(10, 3, Some(7), 90)));
        assert_eq!(scarcest(&[scarce, later]), Some(Forecast::new(10, 3, Some(9), 80)));
        assert_eq!(scarcest(&[later, full]), Some(Forecast::new(3, 3, None, 80)));
        assert_eq!(scarcest(&[]), None);
    }
}

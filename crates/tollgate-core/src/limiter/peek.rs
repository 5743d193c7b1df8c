//! Reading without charging: what a check would answer, and what a key could spend when.
//!
//! All keys are read at one instant, and nothing is written. The answer is never degraded: a guess
//! would be taken for the state of a key.

use super::{Limiter, derive, keys_of, not_empty};
use crate::charge::{Admission, Charge};
use crate::decision::{Decision, Forecast};
use crate::error::Result;
use crate::state::{State, Words};
use crate::store::{CallFacts, Evidence, Loaded, Store, words_under};

impl<S: Store> Limiter<S> {
    /// The decision for charges, without charging any of them. A request id does not matter.
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
    let is_alone = |charge: &Charge<'_>| {
        charge.range().is_none()
            && charges.iter().filter(|one| one.key() == charge.key()).count() < 2
    };
    let planned = match charges.iter().all(is_alone) {
        true => None,
        false => Some(derive::run(charges, &Evidence::decided(now, loaded.states.clone()))?),
    };
    let decisions = match planned {
        // The numbers of a denial are uncharged.
        Some(planned) if !planned.admitted => planned.decisions,
        Some(planned) => {
            // Every charge is allowed after those before it, so each is alone.
            let granted = planned.decisions.iter().map(Decision::granted);
            let exact = charges
                .iter()
                .zip(granted)
                .map(|(charge, units)| units.map_or(*charge, |units| charge.cost(units)));
            let uncharged = peek_each(&exact.collect::<Vec<_>>(), loaded)?;
            let as_planned = |(one, planned): (Decision, &Decision)| {
                one.after(planned.delay_ms).granting(planned.granted())
            };
            uncharged.into_iter().zip(&planned.decisions).map(as_planned).collect()
        }
        None => peek_each(charges, loaded)?,
    };
    let merged = derive::merge(charges, decisions).ok_or_else(derive::no_evidence)?;
    Ok(merged.uncharged())
}

/// The decision for each charge by itself.
fn peek_each(charges: &[Charge<'_>], loaded: Loaded) -> Result<Vec<Decision>> {
    let now = loaded.now;
    read(charges, loaded, |charge, words| charge.rule().peek(&words, now, charge.cost))
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

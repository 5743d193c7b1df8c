//! Which quotas are accepted, and the error that names the field when one is not.

use core::time::Duration;

use crate::error::{Error, Result};
use crate::time::{Micros, micros_of};

/// The largest limit, burst, capacity or queue.
pub(crate) const UNITS_MAX: u64 = 1 << 48;
/// The longest period, and the longest time a full debt may take to decay.
pub(crate) const PERIOD_MAX: Micros = 1 << 52;

/// Units of a quota: 1 to 2^48.
pub(crate) fn units(field: &'static str, units: u64) -> Result<u64> {
    in_range(field, units, 1, UNITS_MAX)
}

/// A period in whole multiples of `step` microseconds, up to `max`.
pub(crate) fn period(
    field: &'static str,
    period: Duration,
    step: Micros,
    max: Micros,
) -> Result<Micros> {
    let micros = micros_of(period);
    let longest = max - max % step;
    let whole = period.subsec_nanos().is_multiple_of(1_000) && micros.is_multiple_of(step);
    if whole && (step..=longest).contains(&micros) {
        return Ok(micros);
    }
    let nearest = Duration::from_micros((micros - micros % step).clamp(step, longest));
    let buckets = if step > 1 { format!("{step} buckets of ") } else { String::new() };
    let [step, longest] = [step, longest].map(Duration::from_micros);
    Err(Error::config(
        field,
        format!(
            "{period:?} cannot be cut into {buckets}whole microseconds; accepted: multiples of \
             {step:?} up to {longest:?}; nearest: {nearest:?}"
        ),
    ))
}

pub(crate) fn in_range(field: &'static str, value: u64, min: u64, max: u64) -> Result<u64> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let nearest = value.clamp(min, max);
    Err(Error::config(
        field,
        format!("{value} is out of range; accepted: {min} to {max}; nearest: {nearest}"),
    ))
}

/// How many more units a key may owe that counts `counted` under a limit, with its largest debt.
/// Nothing counts more units than the largest limit.
pub(crate) fn room_in_debt((limit, max_debt): (u64, u64), counted: u64) -> u64 {
    limit.saturating_add(max_debt).min(UNITS_MAX).saturating_sub(counted)
}

/// `units × numerator / denominator`, rounded down, at least 1.
pub(crate) fn share(units: u64, numerator: u64, denominator: u64) -> u64 {
    let scaled = u128::from(units) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX).clamp(1, UNITS_MAX)
}

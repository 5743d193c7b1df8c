//! Random quotas, from one unit per microsecond to 2^32 − 1 per year, with the awkward ones in it.

use tollgate_core::Micros;

use crate::model::{Kind, ModelQuota};
use crate::rng::Rng;

const SECOND: Micros = 1_000_000;
const DAY: Micros = 86_400 * SECOND;
const YEAR: Micros = 365 * DAY;
/// The largest limit that is accepted.
const UNITS_MAX: u64 = 1 << 48;

/// Units per microseconds that break sloppy arithmetic: no finite decimal, primes, extremes, and
/// both sides of the bound (1024) up to which a schedule fits one word.
const AWKWARD: &[(u64, Micros)] = &[
    (1, 1),
    (1, SECOND),
    (3, SECOND),
    (7, 1_500_000),
    (10, SECOND),
    (97, 1_000_003),
    (999_983, DAY),
    (1_000, SECOND),
    (1_021, 1_000_003),
    (1_023, SECOND + 1),
    (1_024, SECOND + 1),
    (1_025, SECOND + 1),
    (5, 60 * SECOND),
    (2_000_003, SECOND),
    (u32::MAX as u64, YEAR),
    (u32::MAX as u64, SECOND),
    (UNITS_MAX, SECOND),
    (UNITS_MAX - 1, DAY),
    (1 << 40, 1 << 45),
    (1, YEAR),
    (2, 3),
    (3, 2),
    (50, 999),
];

/// A random quota of this kind that Tollgate accepts.
#[must_use]
pub fn random_quota(kind: Kind, rng: &mut Rng) -> ModelQuota {
    accepted(kind, rng, |rng| {
        if rng.one_in(3) {
            (rng.of_any_size(UNITS_MAX), rng.of_any_size(1 << 50))
        } else {
            rng.pick(AWKWARD, (1, SECOND))
        }
    })
}

/// A quota close to this one, of this or another of these kinds: what it has spent matters to the
/// new one.
#[must_use]
pub fn changed_quota(quota: &ModelQuota, kinds: &[Kind], rng: &mut Rng) -> ModelQuota {
    let kind = if rng.one_in(2) { quota.kind() } else { rng.pick(kinds, Kind::Gcra) };
    let (limit, period) = quota.rate();
    accepted(kind, rng, |rng| match rng.below(6) {
        0 => (limit * 2, period),
        1 => ((limit / 2).max(1), period),
        2 => (limit, period * 2),
        3 => (limit, (period / 2).max(1)),
        4 => (limit + 1, period + 1),
        _ => (limit, period),
    })
}

/// Draws until a quota is accepted; a quota that always is stands at the end.
fn accepted(
    kind: Kind,
    rng: &mut Rng,
    mut draw: impl FnMut(&mut Rng) -> (u64, Micros),
) -> ModelQuota {
    for _ in 0..64 {
        let (limit, period) = draw(rng);
        let quota = ModelQuota::random(kind, limit, period, rng);
        if quota.rule().is_ok() {
            return quota;
        }
    }
    ModelQuota::random(kind, 3, SECOND, &mut Rng::new(0))
}

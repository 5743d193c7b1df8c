//! You learn: limits in one process, without a server or a runtime. Several limits at once,
//! requests of different cost, when to retry, and the refund of units for work that was not done.
//!
//! Run it: `cargo run -p tollgate-examples --example library_only`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use tollgate::algorithm::{Gcra, SlidingLog};
use tollgate::limiter::Limiter;
use tollgate::{Cost, Decision, Limit, ManualClock, Quota, Result, Verdict};
use tollgate_testkit::runtime::block_on;

fn main() -> Result<()> {
    // Time is passed in. An application leaves this out: `Limiter::in_memory()`.
    let clock = ManualClock::at(1_700_000_000_000_000);
    let limiter = Limiter::with_clock(tollgate::store::Memory::new(), clock.clone()).build();

    // 100 units per minute and user, of which 20 at once; and 30 in any minute per address.
    let per_user = Limit::new("per-user", Gcra::with_burst(Quota::per_minute(100), 20)?)?;
    let per_address = Limit::new("per-address", SlidingLog::new(Quota::per_minute(30))?)?;

    // One limit: the whole decision in one call.
    let first = limiter.sync().check(per_user.charge("ada"))?;
    show("one unit for ada", &first);
    assert_eq!((first.is_allowed(), first.remaining), (true, 19));

    // Both limits, all or nothing: a request that one of them denies charges neither.
    let ten = Cost::new(10)?;
    let both = |user| {
        let charges =
            [per_user.charge(user).cost(ten), per_address.charge("2001:db8::7").cost(ten)];
        limiter.sync().check(&charges)
    };
    show("ten units for ada", &both("ada")?);
    show("ten units for ben", &both("ben")?);
    let denied = both("ada")?;
    show("ten more for ada", &denied);
    assert_eq!(denied.verdict, Verdict::Denied);
    assert_eq!(denied.binding().map(|name| name.as_str()), Some("per-user"));

    // The wait is exact: after it the same request passes, one millisecond earlier it does not.
    let wait = denied.retry_after_ms.unwrap_or_default();
    clock.advance(std::time::Duration::from_millis(wait - 1));
    assert!(!both("ada")?.is_allowed());
    clock.advance(std::time::Duration::from_millis(1));
    let promised = both("ada")?;
    show("ten for ada after the wait", &promised);
    assert!(promised.is_allowed());

    // Denied by the address this time, so the user is not charged.
    let denied = both("cyd")?;
    show("ten units for cyd", &denied);
    assert_eq!(denied.binding().map(|name| name.as_str()), Some("per-address"));
    assert_eq!(block_on(limiter.forecast(per_user.charge("cyd")))?.spendable_now, 20);

    // A cost that the limit can never grant has no `retry_after`.
    let never = limiter.sync().check(per_user.charge("ada").cost(Cost::new(21)?))?;
    show("21 units for ada", &never);
    assert_eq!((never.verdict, never.retry_after_ms), (Verdict::Never, None));

    // The work failed: what the charge took and still counts is given back, never more.
    let charge = per_user.charge("dan").cost(ten);
    let paid = limiter.sync().check(charge)?;
    if let Some(receipt) = paid.receipt() {
        let refund = limiter.sync().refund(charge.refund(receipt))?;
        let given_back: u64 = refund.each.iter().map(|charge| charge.given_back).sum();
        println!("refund for dan: {given_back} units, {} left", refund.standing.remaining);
        assert_eq!((given_back, refund.standing.remaining), (10, 20));
    }
    Ok(())
}

fn show(what: &str, decision: &Decision) {
    let Decision { verdict, limit, remaining, retry_after_ms, .. } = decision;
    let binding = decision.binding().map_or(String::new(), |name| format!(", bound by {name}"));
    println!(
        "{what}: {}, {remaining} of {limit} left, retry after {retry_after_ms:?} ms{binding}",
        verdict.as_str()
    );
}

#[cfg(test)]
mod tests {
    #[test]
    fn prints_what_is_documented() {
        super::main().unwrap();
    }
}

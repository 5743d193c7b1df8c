//! A store chosen at run time behaves like the same store chosen at build time; limiters, their
//! futures and what they return can go anywhere.

use tollgate::store::{BoxStore, Cas, Memory};
use tollgate::{Admission, Charge, Limit, Limiter, ManualClock, RequestId};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::model::Kind;
use tollgate_testkit::rng::Rng;
use tollgate_testkit::runtime::block_on;

use crate::support::{NOW, VersionedTable, charge, compare_and_swap, memory, rule};

const fn goes_anywhere<T: Send + Sync>() {}

const fn goes_to_another_thread<T: Send>(_: &T) {}

const _: () = {
    goes_anywhere::<Limiter<Memory>>();
    goes_anywhere::<Limiter<BoxStore>>();
    goes_anywhere::<Limiter<ReferenceStore>>();
    goes_anywhere::<Limiter<Cas<VersionedTable>>>();
    goes_anywhere::<tollgate::limiter::LimiterBuilder<Memory>>();
    goes_anywhere::<Limit>();
    goes_anywhere::<Charge<'static>>();
    goes_anywhere::<tollgate::Decision>();
    goes_anywhere::<tollgate::Error>();
    goes_anywhere::<ManualClock>();
};

fn futures_go_to_another_thread<S: tollgate::store::Store>(limiter: &Limiter<S>, limit: &Limit) {
    let charges = [limit.charge("k")];
    let admission = Admission::of(&charges);
    goes_to_another_thread(&limiter.check(&admission));
    goes_to_another_thread(&limiter.close());
}

#[test]
fn futures_of_limiters_go_to_another_thread() {
    let limit = Limit::with_rule("p", rule(Kind::Gcra, 5, std::time::Duration::from_secs(1)));
    let limit = limit.unwrap();
    let erased = Limiter::with_clock(BoxStore::new(memory()), ManualClock::at(NOW)).build();
    futures_go_to_another_thread(&erased, &limit);
    let limiter = Limiter::with_clock(compare_and_swap(), ManualClock::at(NOW)).build();
    let charges = [limit.charge("k")];
    let admissions = [Admission::of(&charges)];
    goes_to_another_thread(&limiter.check(limit.charge("k")));
    goes_to_another_thread(&limiter.check_batch(&charges));
    goes_to_another_thread(&limiter.check_batch(&admissions));
    goes_to_another_thread(&limiter.peek(limit.charge("k")));
    goes_to_another_thread(&limiter.forecast(limit.charge("k")));
    goes_to_another_thread(&limiter.refund(limit.charge("k").refund(tollgate::Receipt::Newest)));
    goes_to_another_thread(&limiter.reset(limit.charge("k")));
}

#[test]
fn an_erased_store_behaves_the_same() {
    for (seed, kind) in (0..).zip(Kind::ALL) {
        println!("seed {seed}");
        let (mut rng, clock) = (Rng::new(seed), ManualClock::at(NOW));
        let plain = Limiter::with_clock(memory(), clock.clone()).build();
        let erased = Limiter::with_clock(BoxStore::new(memory()), clock.clone()).build();
        let limit =
            Limit::with_rule("p", rule(kind, 5, std::time::Duration::from_millis(20))).unwrap();
        for step in 0..400 {
            clock.advance(std::time::Duration::from_micros(rng.below(9_000)));
            let context = format!("{}, seed {seed}, step {step}", kind.name());
            let charges = [charge(&limit, "k", rng.between(1, 3)), charge(&limit, "l", 1)];
            let admission = Admission::of(&charges);
            let id = format!("{}", rng.below(5));
            let once = Admission::of(&charges[..1]).request_id(RequestId::new(&id).unwrap());
            match rng.below(6) {
                0 => assert_eq!(
                    block_on(plain.check(charges[0])).unwrap(),
                    block_on(erased.check(charges[0])).unwrap(),
                    "{context}"
                ),
                1 => assert_eq!(
                    block_on(plain.check(&admission)).unwrap(),
                    block_on(erased.check(&admission)).unwrap(),
                    "{context}"
                ),
                2 => assert_eq!(
                    block_on(plain.check(&once)).map_err(|error| error.code()),
                    block_on(erased.check(&once)).map_err(|error| error.code()),
                    "{context}"
                ),
                3 => {
                    let many = |decided: Vec<tollgate::Result<tollgate::Decision>>| {
                        decided.into_iter().map(Result::unwrap).collect::<Vec<_>>()
                    };
                    let plain = many(block_on(plain.check_batch(&charges)));
                    assert_eq!(plain, many(block_on(erased.check_batch(&charges))), "{context}");
                }
                4 => assert_eq!(
                    block_on(plain.forecast(limit.charge("k"))).unwrap(),
                    block_on(erased.forecast(limit.charge("k"))).unwrap(),
                    "{context}"
                ),
                _ => {
                    block_on(plain.reset(limit.charge("l"))).unwrap();
                    block_on(erased.reset(limit.charge("l"))).unwrap();
                }
            }
        }
    }
}

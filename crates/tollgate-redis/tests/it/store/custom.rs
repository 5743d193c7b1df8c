//! Algorithms that users write: with a script of their own, and without one.

use tollgate_core::algorithm::{Custom, CustomAlgorithm, CustomStep};
use tollgate_core::store::{CallContext, Retries, Store};
use tollgate_core::{Admission, Code, Cost, Decision, Limit, Micros, Now, Rule};
use tollgate_redis::client::Client;
use tollgate_redis::{KeyLayout, Redis};
use tollgate_test_servers::{Redis as Server, shared};
use tollgate_testkit::check::script_agrees;
use tollgate_testkit::contention::{self, Losses};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::runtime::join_all;

use super::{USER, run, store};

const HOUR: Micros = 3_600_000_000;

/// This many units, all of which come back an hour after the last charge.
#[derive(Debug)]
struct Cooldown {
    units: u64,
    script: Option<&'static str>,
}

/// The same in Lua.
const RIGHT: &str = "function(words, now, cost, parameters)
  local used, newest = words[1] or 0, words[2] or 0
  local at = math.max(now, newest)
  if at >= newest + 3600000000 then used = 0 end
  if used + cost > parameters[1] then return nil end
  return {used + cost, at}, at + 3600000000
end";

/// One unit too generous.
const WRONG: &str = "function(words, now, cost, parameters)
  local used, newest = words[1] or 0, words[2] or 0
  local at = math.max(now, newest)
  if at >= newest + 3600000000 then used = 0 end
  if used + cost > parameters[1] + 1 then return nil end
  return {used + cost, at}, at + 3600000000
end";

impl Custom for Cooldown {
    type State = (u64, Micros);
    const NAME: &'static str = "cooldown";

    fn parameters(&self) -> [u64; 3] {
        [self.units, 0, 0]
    }

    fn ceiling(&self) -> u64 {
        self.units
    }

    fn horizon(&self) -> Micros {
        HOUR
    }

    fn encode(&self, state: &(u64, Micros)) -> Vec<u64> {
        vec![state.0, state.1]
    }

    fn decode(&self, words: &[u64]) -> Option<(u64, Micros)> {
        if let [used, newest] = *words { Some((used, newest)) } else { None }
    }

    fn step(
        &self,
        state: Option<&(u64, Micros)>,
        now: Now,
        cost: Cost,
    ) -> CustomStep<(u64, Micros)> {
        let (used, last) = state.copied().unwrap_or_default();
        let at = now.effective().max(last);
        let used = if at >= last + HOUR { 0 } else { used };
        let left = self.units.saturating_sub(used);
        let reset = |last: Micros| (last + HOUR).div_ceil(1_000);
        if cost.get() > self.units {
            let decision = Decision::never(self.units, left, reset(last));
            return CustomStep { decision, next: None };
        }
        if cost.get() > left {
            let wait = (last + HOUR - now.reading()).div_ceil(1_000);
            let decision = Decision::denied(self.units, left, reset(last), wait);
            return CustomStep { decision, next: None };
        }
        let decision = Decision::allowed(self.units, left - cost.get(), reset(at));
        CustomStep { decision, next: Some(((used + cost.get(), at), at + HOUR)) }
    }

    fn script(&self) -> Option<&'static str> {
        self.script
    }
}

/// With a script of its own, or without one.
pub(super) fn cooldown(units: u64, script: Option<&'static str>) -> Rule {
    Rule::new(CustomAlgorithm::new(Cooldown { units, script }))
}

#[test]
fn a_script_that_agrees_passes_the_check() {
    run(script_agrees(&store(&shared::redis().url()), &cooldown(50, Some(RIGHT)), 21, 3_000));
}

#[test]
#[should_panic(expected = "cooldown differs at step")]
fn a_script_that_is_too_generous_is_found() {
    // Not the seed of the other test: it names the keys.
    run(script_agrees(&store(&shared::redis().url()), &cooldown(50, Some(WRONG)), 22, 3_000));
}

/// Of 200 callers of four stores, exactly 50 pass, with a script and without one.
#[test]
fn users_algorithms_are_exact() {
    for (name, script) in [("scripted", Some(RIGHT)), ("unscripted", None)] {
        let limit =
            Limit::with_rule(name, cooldown(50, script)).unwrap().with_prefix("custom").unwrap();
        let charges = [limit.charge("shared")];
        let admission = Admission::of(&charges);
        let stores: Vec<_> = (0..4).map(|_| store(&shared::redis().url())).collect();
        let checks = stores.iter().flat_map(|store| {
            let admission = &admission;
            (0..50).map(move |_| store.admit(admission, CallContext::store_clock()))
        });
        let outcomes = run(join_all(checks));
        let (mut admitted, mut exhausted) = (0, 0);
        for outcome in outcomes {
            match outcome {
                Ok(outcome) => {
                    let plan = decisions_of(&admission, &outcome).unwrap();
                    admitted += u64::from(plan.admitted);
                }
                Err(error) => {
                    assert_eq!(error.code(), Code::ConflictExhausted, "{error}");
                    exhausted += 1;
                }
            }
        }
        println!("{name}: {admitted} of 50 admitted, {exhausted} gave up");
        assert!(admitted <= 50, "{name}");
        assert!(exhausted > 0 || admitted == 50, "{name}: {admitted}");
    }
}

/// A user without a right that a swap needs gets an error, and nothing is written.
#[test]
fn without_the_rights_of_a_swap_nothing_is_written() {
    let limit = Limit::with_rule("rights", cooldown(5, None)).unwrap();
    for right in ["evalsha", "time", "set"] {
        let redis =
            Server::builder().user(&USER.replace(&format!("+{right}"), "")).start().unwrap();
        let store = store(&format!("redis://limiter:pa55@{}", redis.addr()));
        let charges = [limit.charge("a")];
        let error =
            run(store.admit(&Admission::of(&charges), CallContext::store_clock())).unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{right}: {error}");
        assert!(error.to_string().contains("NOPERM"), "{right}: {error}");
        // A script that fails may have written before.
        assert_eq!(error.is_not_sent(), right != "set", "{right}: {error}");
        let keys = redis.client().unwrap().call(&["DBSIZE"]).unwrap();
        assert_eq!(keys.integer(), Some(0), "written without +{right}");
    }
}

/// A caller that loses races until the deadline is not admitted by an outage mode.
#[test]
fn callers_that_lose_races_are_never_admitted() {
    let many = Rule::new(CustomAlgorithm::new(Cooldown { units: 1 << 30, script: None }));
    let limit = Limit::with_rule("losers", many).unwrap().with_prefix("custom").unwrap();
    let url = shared::redis().url();
    let losses = Losses::default();
    run(async {
        let transport = Client::open(url.parse().unwrap()).unwrap();
        let loser = {
            let (layout, retries) = (KeyLayout::default(), Retries::default());
            Redis::with_options(transport, layout, retries, losses.clone())
        };
        contention::losers_are_never_let_in((loser, store(&url)), || losses.count(), &limit, 0)
            .await;
    });
}

//! Lua against Rust: the same verdict, the same state, byte for byte, step by step.

use std::thread;

use tollgate_core::store::{TimeSource, plan};
use tollgate_core::{Limit, Now, QuotaId, Rule, State};
use tollgate_test_servers::{Redis, shared};
use tollgate_testkit::model::{Kind, ModelQuota};
use tollgate_testkit::runtime::block_on;
use tollgate_testkit::trace::{Event, Mix, Settling, Trace};

use super::Plain;
use crate::script::{self, Scripts, list_of_one};
use crate::store::batch_encode::{Item, ItemResult, calls_of, instant_of};
use crate::text::{state_text, to_hold};
use crate::transport::{Args, Call, Reply, Transport};

/// Steps of each algorithm.
const STEPS: usize = 100_000;
/// Steps that are sent at once.
const AT_ONCE: usize = 2_000;

/// Charges on one key at a time. What a script leaves to Rust is settling: it is written as a swap
/// writes it, and the scripts have to read it, in debt too.
const MIX: Mix =
    Mix { events_per_key: 250, floors: false, settles: true, changes: &[], extremes: true };

/// A step, with what Rust says the key holds before and after.
struct Step {
    /// Whether the state before was settled since the last step.
    is_settled: bool,
    item: Item,
    before: Option<State>,
    after: Option<State>,
}

/// Seeded steps: a pure function of the seed.
struct Steps {
    trace: Trace,
    rule: Option<Rule>,
    state: Option<State>,
    is_settled: bool,
    key: usize,
    name: String,
}

impl Steps {
    fn next(&mut self) -> Step {
        loop {
            match self.trace.next_event() {
                Event::Fresh(quota) => {
                    self.rule = Some(quota.rule().unwrap());
                    self.state = None;
                    self.is_settled = false;
                    self.key += 1;
                }
                Event::Settle(now, settling) => self.settle(now, settling),
                Event::Check(now, cost) => {
                    let rule = self.rule.clone().unwrap();
                    let words = self.state.as_ref().map_or(&[][..], |state| &state.words);
                    let stepped = rule.step(words, now, cost);
                    self.trace.observe(now, cost, &stepped.decision);
                    let before = self.state.clone();
                    if let Some(write) = stepped.write {
                        self.state = Some(State::new(rule.quota_id(), write.words));
                    }
                    let step = rule.scripted_step().unwrap();
                    let name = format!("diff:{}:{{{}}}", self.name, self.key);
                    let item = Item {
                        name,
                        rule,
                        step,
                        cost,
                        at: TimeSource::Given(now.reading()),
                        until: None,
                    };
                    let is_settled = core::mem::take(&mut self.is_settled);
                    return Step { is_settled, item, before, after: self.state.clone() };
                }
                // Looks write nothing and are derived in Rust.
                Event::Peek(..) | Event::Forecast(_) => {}
                event => panic!("{event:?} is not in the mix"),
            }
        }
    }
}

impl Steps {
    fn settle(&mut self, now: Now, settling: Settling) {
        let Settling { cost, receipt, to, max_debt } = settling;
        let limit = Limit::with_rule("settled", self.rule.clone().unwrap()).unwrap();
        let limit = limit.max_debt(max_debt);
        let charges = [limit.charge("key").cost(cost).settle(receipt, to)];
        let planned = plan(&charges, &[0], core::slice::from_ref(&self.state), now).unwrap();
        if let Some(write) = planned.writes.into_iter().next() {
            self.state = Some(write.state);
            self.is_settled = true;
        }
    }
}

/// Writes a state that was settled, as a swap does.
fn write(scripts: &Scripts, step: &Step) -> Vec<Call> {
    let Some(state) = step.before.as_ref().filter(|_| step.is_settled) else { return Vec::new() };
    let name = vec![step.item.name.clone()];
    let forget = Call::new(scripts.forget.clone(), name.clone(), Args::default());
    let mut args = Args::default();
    args.text("n");
    args.text(&to_hold(&state.to_text()));
    args.unsigned(0);
    vec![forget, Call::new(scripts.swap.clone(), name, args)]
}

/// What the key holds, right after a step.
fn read(scripts: &Scripts, item: &Item) -> Call {
    let mut args = Args::default();
    args.integer(0);
    Call::new(scripts.load.clone(), vec![item.name.clone()], args)
}

/// The two frames that charge a key: among others, and alone.
#[derive(Clone, Copy, Debug)]
enum Frame {
    Many,
    One,
}

impl Frame {
    /// The call of a charge that was made for the other frame.
    fn of(self, call: Call, item: &Item, scripts: &Scripts) -> Call {
        match self {
            Self::Many => call,
            Self::One => {
                let args = list_of_one(&item.rule, item.cost, instant_of(item.at));
                let script = scripts.of(script::Frame::ChargeOne(item.step));
                Call::new(script, vec![item.name.clone()], args)
            }
        }
    }
}

fn compare(server: &Redis, frame: Frame, kind: Kind, seed: u64) {
    let (plain, scripts) = (Plain::to(server), Scripts::default());
    let (trace, name) = (Trace::new(kind, seed, MIX), format!("{frame:?}:{}", kind.name()));
    let mut steps =
        Steps { trace, rule: None, state: None, is_settled: false, key: 0, name: name.clone() };
    let (mut done, mut denied, mut in_debt) = (0, 0, 0);
    while done < STEPS {
        let batch: Vec<Step> = (0..AT_ONCE).map(|_| steps.next()).collect();
        let takes: Vec<_> =
            batch.iter().map(|step| calls_of(&[&step.item], &scripts, false).remove(0)).collect();
        let calls: Vec<Call> = takes
            .iter()
            .zip(&batch)
            .flat_map(|((call, _), step)| {
                let mut calls = write(&scripts, step);
                calls.push(frame.of(call.clone(), &step.item, &scripts));
                calls.push(read(&scripts, &step.item));
                calls
            })
            .collect();
        let calls = with_texts(calls, done == 0);
        let mut replies = Vec::with_capacity(calls.len());
        block_on(plain.send_all(&calls, |_, reply| replies.push(reply)));
        let mut replies = replies.into_iter();
        for ((_, take), step) in takes.into_iter().zip(&batch) {
            let context = format!("{name}, seed {seed}, step {done}, {:?}", step.item);
            if step.is_settled {
                let forgotten = replies.next().unwrap();
                assert!(forgotten.is_ok(), "{forgotten:?}: {context}");
                assert_eq!(replies.next().unwrap().unwrap(), Reply::Integer(1), "{context}");
                let words = step.before.as_ref().map_or(&[][..], |state| &state.words);
                let owed = step.item.rule.debt(words, Now::at(given(&step.item))).units;
                in_debt += usize::from(owed > step.item.rule.ceiling());
            }
            let (taken, looked) = (replies.next().unwrap(), replies.next().unwrap());
            let again = take.read(&[&step.item], taken, |_, answer| {
                let ItemResult::Decided(outcome) = answer else { panic!("{answer:?}: {context}") };
                assert_eq!(Now::at(given(&step.item)), outcome.now, "{context}");
                // Of a log the script returns as much as the decision needs.
                let returned = outcome.before.into_iter().next().flatten();
                assert_eq!(
                    decision(&step.item, returned.as_ref()),
                    decision(&step.item, step.before.as_ref()),
                    "{context}"
                );
            });
            assert!(again.is_empty(), "{context}");
            let Reply::List(looked) = looked.unwrap() else { panic!("{context}") };
            let held = state_text(looked.get(1).unwrap_or(&Reply::Nil));
            assert_eq!(held, step.after.as_ref().map(State::to_text), "{context}");
            denied += usize::from(step.before == step.after);
            done += 1;
        }
    }
    let keys = steps.key;
    eprintln!("{name}: {done} steps on {keys} keys, {denied} denied, {in_debt} in debt, {seed}");
    assert!(in_debt > STEPS / 500, "hardly any key was in debt");
    assert!(denied > STEPS / 20 && denied < STEPS - STEPS / 20, "the trace is one-sided");
}

/// The whole script where the server may lack it.
fn with_texts(mut calls: Vec<Call>, is_first: bool) -> Vec<Call> {
    if is_first {
        calls.iter_mut().for_each(|call| *call = call.with_text());
    }
    calls
}

fn given(item: &Item) -> u64 {
    match item.at {
        TimeSource::Given(at) => at,
        TimeSource::StoreClock => 0,
    }
}

fn decision(item: &Item, before: Option<&State>) -> tollgate_core::Decision {
    let words = before.map_or(&[][..], |state| &state.words);
    let quota_id: Option<QuotaId> = before.map(|state| state.quota_id);
    assert!(quota_id.is_none_or(|quota_id| quota_id == item.rule.quota_id()));
    item.rule.step(words, Now::at(given(item)), item.cost).decision
}

/// Every algorithm that has a script, each in a thread.
fn every_script_agrees(server: &Redis) {
    let has_script = |kind: &Kind| {
        let quotas = ModelQuota::of_kind(*kind, 3, 1_000_000);
        quotas.iter().any(|quota| quota.rule().unwrap().scripted_step().is_some())
    };
    thread::scope(|scope| {
        for (seed, kind) in (11..).zip(Kind::ALL.into_iter().filter(has_script)) {
            scope.spawn(move || {
                compare(server, Frame::Many, kind, seed);
                compare(server, Frame::One, kind, seed + 100);
            });
        }
    });
}

#[test]
fn every_script_agrees_on_redis_7() {
    every_script_agrees(shared::redis());
}

#[test]
fn every_script_agrees_on_redis_8() {
    every_script_agrees(shared::redis_8());
}

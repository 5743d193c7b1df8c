//! Scripts: how they are put together, and the digest the server knows each by.
//!
//! A script is a frame with the steps of the algorithms that it needs in front (module `steps`):
//! `charge_many` with one step, for many keys that are charged independently; `charge_one` with one
//! step, for a single charge; `admit` with several steps, for charges that are made all or none.
//! Each combination is put together once.

mod steps;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tollgate_core::algorithm::ScriptedStep;
use tollgate_core::{Cost, Rule};

use crate::transport::Args;

const CHARGE_ONE: &str = include_str!("charge_one.lua");
const CHARGE_MANY: &str = include_str!("charge_many.lua");
const ADMIT: &str = include_str!("admit.lua");
const LOAD: &str = include_str!("load.lua");
const SWAP: &str = include_str!("swap.lua");
const FORGET: &str = "return redis.call('DEL', KEYS[1])";

/// A Lua script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    text: String,
    digest: String,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub fn new(text: String) -> Arc<Self> {
        let digest = sha1_smol::Sha1::from(&text).digest().to_string();
        Arc::new(Self { text, digest })
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The SHA-1 of the text, in hexadecimal: what `EVALSHA` names it by.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

/// All scripts of a store.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) load: Arc<Script>,
    pub(crate) swap: Arc<Script>,
    pub(crate) forget: Arc<Script>,
    made: RwLock<HashMap<Frame, Arc<Script>>>,
}

/// A frame and the steps in front of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Frame {
    /// Charges one key once.
    ChargeOne(ScriptedStep),
    /// Charges many keys independently.
    ChargeMany(ScriptedStep),
    /// Charges several keys, all or none. A charge names its step by its place in the list, from 1.
    Admit(Vec<ScriptedStep>),
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            load: Script::new(LOAD.to_owned()),
            swap: Script::new(SWAP.to_owned()),
            forget: Script::new(FORGET.to_owned()),
            made: RwLock::default(),
        }
    }
}

impl Scripts {
    /// The script of a frame, put together on first use.
    pub(crate) fn of(&self, frame: Frame) -> Arc<Script> {
        let made = self.made.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = made.get(&frame) {
            return Arc::clone(script);
        }
        drop(made);
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        let text = frame.text();
        Arc::clone(made.entry(frame).or_insert_with(|| Script::new(text)))
    }
}

/// Room for the arguments of one charge, which are seldom longer.
const LIST_BYTES: usize = 192;
/// Room for the text of a quota.
const QUOTA_ID_BYTES: usize = 64;

/// The only argument of [`Frame::ChargeOne`]: a list in JSON. None of its texts needs an escape.
pub(crate) fn list_of_one(rule: &Rule, cost: Cost, (instant, grace): (Option<u64>, i64)) -> Args {
    let quota_id = rule.quota_id().0;
    let mut list = String::with_capacity(LIST_BYTES);
    list.push('[');
    push_numbers(&mut list, [grace]);
    list.push_str(",\"");
    push_numbers(&mut list, quota_id.into_iter().take(3));
    list.push_str("\",\"");
    push_numbers(&mut list, quota_id);
    list.push_str("\",");
    let (mut of_quota, mut of_cost) = (Vec::with_capacity(4), Vec::with_capacity(4));
    rule.script_quota(&mut of_quota);
    rule.script_cost(cost, &mut of_cost);
    push_numbers(&mut list, of_quota);
    list.push(',');
    push_numbers(&mut list, of_cost);
    if let Some(instant) = instant {
        list.push(',');
        push_numbers(&mut list, [instant]);
    }
    list.push(']');
    let mut args = Args::default();
    args.text(&list);
    args
}

/// Appends numbers, with commas between them. Without the formatter, which would take a sixth of
/// the client's time.
fn push_numbers(text: &mut String, numbers: impl IntoIterator<Item = impl itoa::Integer>) {
    for (index, number) in numbers.into_iter().enumerate() {
        text.push_str(if index > 0 { "," } else { "" });
        text.push_str(itoa::Buffer::new().format(number));
    }
}

/// Appends the texts and numbers of a quota, as its step expects them.
pub(crate) fn write_quota(args: &mut Args, rule: &Rule) {
    let quota_id = rule.quota_id().0;
    let mut text = String::with_capacity(QUOTA_ID_BYTES);
    push_numbers(&mut text, quota_id.into_iter().take(3));
    args.text(&text);
    text.clear();
    push_numbers(&mut text, quota_id);
    args.text(&text);
    let mut numbers = Vec::with_capacity(4);
    rule.script_quota(&mut numbers);
    numbers.into_iter().for_each(|number| args.unsigned(number));
}

/// Appends the numbers of a cost, as the step of the rule expects them.
pub(crate) fn write_cost(args: &mut Args, rule: &Rule, cost: Cost) {
    let mut numbers = Vec::with_capacity(4);
    rule.script_cost(cost, &mut numbers);
    numbers.into_iter().for_each(|number| args.integer(number));
}

impl Frame {
    fn text(&self) -> String {
        match self {
            Self::ChargeOne(step) => format!("{}\n{CHARGE_ONE}", steps::text_of(*step)),
            Self::ChargeMany(step) => format!("{}\n{CHARGE_MANY}", steps::text_of(*step)),
            Self::Admit(steps) => {
                let declare = |step: &ScriptedStep| {
                    let text = steps::text_of(*step);
                    format!(
                        "S[#S + 1] = (function()\n{text}\nreturn {{rule = RULE, cost = COST, \
                         read = read, step = step, words = words, write = write}}\nend)()\n"
                    )
                };
                let steps: String = steps.iter().map(declare).collect();
                format!("local S = {{}}\n{steps}{ADMIT}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_testkit::model::ModelQuota;

    use super::*;

    #[test]
    fn numbers_leave_lua_only_in_ways_that_are_exact() {
        let frames = [CHARGE_ONE, CHARGE_MANY, ADMIT, LOAD, SWAP, FORGET].map(str::to_owned);
        let quotas = ModelQuota::every_kind(3, 1_000_000).into_iter();
        let steps = quotas.filter_map(|quota| quota.rule().unwrap().scripted_step());
        let steps = steps.chain([ScriptedStep::Custom("")]);
        for text in frames.into_iter().chain(steps.map(steps::text_of)) {
            for line in text.lines() {
                let code = line.split("--").next().unwrap_or_default();
                for banned in ["tostring", "..", "cjson.encode", "%g", "cmsgpack", "struct."] {
                    assert!(!code.contains(banned), "{banned} is used: {line}");
                }
            }
        }
    }

    #[test]
    fn each_script_is_made_once() {
        let scripts = Scripts::default();
        let (one, two) = (ScriptedStep::Custom("-- a"), ScriptedStep::Custom("-- b"));
        let frames = [
            Frame::ChargeOne(one),
            Frame::ChargeOne(two),
            Frame::ChargeMany(one),
            Frame::Admit(vec![one]),
            Frame::Admit(vec![one, two]),
        ];
        let made = frames.clone().map(|frame| scripts.of(frame));
        for (at, (frame, script)) in frames.into_iter().zip(&made).enumerate() {
            assert!(Arc::ptr_eq(script, &scripts.of(frame)));
            assert!(made[..at].iter().all(|other| other.digest() != script.digest()));
        }
    }

    #[test]
    fn the_digest_is_that_of_the_text() {
        let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        assert_eq!(Script::new("return 1".to_owned()).digest(), digest);
    }
}

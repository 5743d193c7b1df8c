//! The policies in force, in numbers and in the words of the configuration. Keys with limits of
//! their own are counted and not named: they may be secret.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_core::Name;

use super::Response;
use super::encode::{LimitJson, json};
use crate::auth::Scope;
use crate::policy::{LimitInfo, LimitSet, LimitWords, NamedLimit, Policies, Policy, Refunds};

/// How many different sets of limits of single keys are listed for a policy.
const SETS_MAX: usize = 64;

#[derive(Serialize)]
struct PoliciesJson<'a> {
    policies: Vec<PolicyJson<'a>>,
}

#[derive(Serialize)]
struct PolicyJson<'a> {
    policy: &'a str,
    shadow: bool,
    refunds: &'static str,
    limits: Vec<LimitJson<'a>>,
    /// How many keys have limits of their own.
    overrides: usize,
    /// The policy in the words of a configuration.
    written: Value,
}

/// The policies that a caller may use.
pub(super) fn policies(all: &Policies, scope: &Scope) -> Response {
    let of_caller: Vec<&Policy> =
        all.iter().filter(|policy| scope.has(policy.name().as_str())).collect();
    let infos: Vec<Vec<LimitInfo>> = of_caller.iter().map(|policy| policy.infos()).collect();
    let each = of_caller.iter().zip(&infos).map(|(policy, infos)| PolicyJson {
        policy: policy.name().as_str(),
        shadow: policy.is_shadow(),
        refunds: policy.refunds().as_str(),
        limits: infos
            .iter()
            .map(|limit| LimitJson::of((policy.name(), policy.is_shadow()), limit))
            .collect(),
        overrides: policy.overrides().len(),
        written: written(policy, all.ad_hoc().prefix()),
    });
    json(&PoliciesJson { policies: each.collect() })
}

/// The section of a policy, without what has its default.
fn written(policy: &Policy, default_prefix: &Name) -> Value {
    let mut section = section(policy.name(), policy.default_set());
    let mut add = |name: &str, value: Value| section.insert(name.to_owned(), value);
    if let Some(limit) = policy.limits().next() {
        add("on_outage", limit.outage_mode().as_str().into());
        if limit.prefix() != default_prefix {
            add("prefix", limit.prefix().as_str().into());
        }
        if limit.debt_bound() != limit.rule().ceiling() {
            add("max_debt", limit.debt_bound().into());
        }
    }
    if policy.is_shadow() {
        add("shadow", true.into());
    }
    if policy.refunds() != Refunds::default() {
        add("refunds", policy.refunds().as_str().into());
    }
    if let Some(bits) = policy.hash_bits() {
        add("hash_keys", bits.into());
    }
    let overrides = overrides(policy);
    if !overrides.is_empty() {
        add("overrides", overrides.into());
    }
    Value::Object(section)
}

/// The sets of limits of single keys, each once with the number of its keys.
fn overrides(policy: &Policy) -> Vec<Value> {
    let mut sets: BTreeMap<String, (Map<String, Value>, u64)> = BTreeMap::new();
    for set in policy.overrides() {
        let section = section(policy.name(), set);
        let text = Value::Object(section.clone()).to_string();
        sets.entry(text).or_insert((section, 0)).1 += 1;
    }
    let counted = sets.into_values().map(|(mut section, keys)| {
        section.insert("keys".to_owned(), keys.into());
        Value::Object(section)
    });
    counted.take(SETS_MAX).collect()
}

/// One limit, or a list of them.
fn section(policy: &Name, LimitSet { limits, .. }: &LimitSet) -> Map<String, Value> {
    match &**limits {
        [one] if one.name == *policy => in_words(one),
        several => {
            let each = several.iter().map(|named| {
                let mut section = in_words(named);
                section.insert("name".to_owned(), named.name.as_str().into());
                Value::Object(section)
            });
            [("limits".to_owned(), each.collect())].into_iter().collect()
        }
    }
}

fn in_words(named: &NamedLimit) -> Map<String, Value> {
    let LimitWords { algorithm, rate, option } = LimitWords::of(named.limit.rule());
    let algorithm = algorithm.map(|algorithm| ("algorithm", algorithm));
    let fields = algorithm.into_iter().chain([rate]).chain(option);
    let value = |text: String| match text.parse::<u64>() {
        Ok(number) => Value::from(number),
        Err(_) => Value::String(text),
    };
    fields.map(|(name, text)| (name.to_owned(), value(text))).collect()
}

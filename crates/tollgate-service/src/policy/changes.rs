//! What differs between two sets of policies: a line for each difference, in the words of the
//! configuration. Keys are in none of them.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use tollgate_core::{Limit, Name};

use super::words::LimitWords;
use super::{LimitSet, NamedLimit, Policies, Policy};

/// A difference of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    /// The policy.
    pub policy: Name,
    /// What differs, such as `limit day: from 100 per 1d to 200 per 1d`.
    pub text: String,
}

impl Display for PolicyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}: {}", self.policy, self.text)
    }
}

impl Policies {
    /// What changes from these policies to others, in the order of their names.
    #[must_use]
    pub fn changes_to(&self, next: &Self) -> Vec<PolicyChange> {
        let mut changes = Vec::new();
        let gone = self.iter().filter(|policy| !next.by_name.contains_key(policy.name.as_str()));
        let mut add = |policy: &Policy, text| {
            changes.push(PolicyChange { policy: policy.name.clone(), text });
        };
        for policy in gone {
            add(policy, "removed".to_owned());
        }
        for policy in next.iter() {
            match self.by_name.get(policy.name.as_str()) {
                None => add(policy, format!("added, {}", in_words(&policy.limits))),
                Some(before) => before.changes_to(policy).into_iter().for_each(|text| {
                    add(policy, text);
                }),
            }
        }
        changes.sort_by(|one, other| one.policy.cmp(&other.policy));
        changes
    }
}

impl Policy {
    fn changes_to(&self, next: &Self) -> Vec<String> {
        let mut changes = self.limits.changes_to(&next.limits);
        let mut add = |field: &str, before: String, after: String| {
            if before != after {
                changes.push(format!("{field}: from {before} to {after}"));
            }
        };
        let of = |policy: &Self, read: fn(&Limit) -> String| {
            policy.limits().next().map(read).unwrap_or_default()
        };
        let mode = |limit: &Limit| limit.outage_mode().as_str().to_owned();
        let prefix = |limit: &Limit| limit.prefix().to_string();
        let debt = |limit: &Limit| match limit.debt_bound() {
            bound if bound == limit.rule().ceiling() => "one ceiling".to_owned(),
            bound => bound.to_string(),
        };
        let bits = |policy: &Self| match &policy.hash {
            Some(hash) => format!("{} bits", hash.width()),
            None => "off".to_owned(),
        };
        add("on_outage", of(self, mode), of(next, mode));
        add("shadow", self.shadow.to_string(), next.shadow.to_string());
        add("refunds", self.refunds.as_str().to_owned(), next.refunds.as_str().to_owned());
        add("max_debt", of(self, debt), of(next, debt));
        add("prefix", of(self, prefix), of(next, prefix));
        add("hash_keys", bits(self), bits(next));
        let bounds = |policy: &Self| policy.limits().next().map(|limit| *limit.bounds());
        if bounds(self) != bounds(next) {
            let text = "bounds in memory: changed; a restart is needed once it has keys";
            changes.push(text.to_owned());
        }
        changes.extend(self.changed_overrides(next));
        changes
    }

    /// How many keys got other limits of their own, have them no more, or have different ones.
    fn changed_overrides(&self, next: &Self) -> Option<String> {
        let (before, after) = (&self.overrides, &next.overrides);
        let added = after.keys().filter(|key| !before.contains_key(*key)).count();
        let removed = before.keys().filter(|key| !after.contains_key(*key)).count();
        let is_changed = |key: &str, set: &LimitSet| {
            before.get(key).is_some_and(|earlier| !earlier.changes_to(set).is_empty())
        };
        let changed = after.iter().filter(|(key, set)| is_changed(key, set)).count();
        let counts = [(added, "added"), (changed, "changed"), (removed, "removed")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        (!counts.is_empty()).then(|| format!("overrides: {}", counts.join(", ")))
    }
}

impl LimitSet {
    fn changes_to(&self, next: &Self) -> Vec<String> {
        let words = |set: &Self| -> BTreeMap<Name, LimitWords> {
            let each = set
                .limits
                .iter()
                .map(|NamedLimit { name, limit }| (name.clone(), LimitWords::of(limit.rule())));
            each.collect()
        };
        let (before, after) = (words(self), words(next));
        let removed = before.keys().filter(|name| !after.contains_key(*name));
        let mut changes: Vec<_> = removed.map(|name| format!("limit {name}: removed")).collect();
        for (name, now) in &after {
            match before.get(name) {
                None => changes.push(format!("limit {name}: added, {now}")),
                Some(earlier) if earlier != now => {
                    changes.push(format!("limit {name}: from {earlier} to {now}"));
                }
                Some(_) => {}
            }
        }
        changes
    }
}

/// All limits in one line.
fn in_words(LimitSet { limits, .. }: &LimitSet) -> String {
    let one = |NamedLimit { name, limit }: &NamedLimit| {
        format!("limit {name}: {}", LimitWords::of(limit.rule()))
    };
    limits.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use crate::config::policies_with_secret;

    fn changes(before: &str, after: &str) -> Vec<String> {
        let read = |text: &str| {
            let policies = format!("policies: {{{text}}}");
            policies_with_secret(&policies, "a secret of sixteen").unwrap()
        };
        let changes = read(before).changes_to(&read(after));
        changes.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn policies_that_are_added_and_removed_are_named() {
        let same = "a: {limit: 1 per 1s}, b: {limit: 2 per 1m}";
        assert_eq!(changes(same, same), [""; 0]);
        let found = changes(same, "b: {limit: 2 per 1m}, c: {limit: 9 per 1h, burst: 3}");
        assert_eq!(found, ["policy a: removed", "policy c: added, limit c: 9 per 1h, burst 3"]);
    }

    #[test]
    fn every_field_of_a_policy_that_changed_is_said() {
        let before =
            "p: {limits: [{name: second, limit: 10 per 1s}, {name: day, limit: 9 per 1d}]}";
        let after = "p: {on_outage: closed, shadow: true, refunds: off, max_debt: 4, prefix: live,
            hash_keys: 64, max_keys: 7,
            limits: [{name: second, limit: 20 per 1s}, {name: hour, limit: 5 per 1h}]}";
        let expected = [
            "limit day: removed",
            "limit hour: added, 5 per 1h",
            "limit second: from 10 per 1s to 20 per 1s",
            "on_outage: from open to closed",
            "shadow: from false to true",
            "refunds: from receipt to off",
            "max_debt: from one ceiling to 4",
            "prefix: from tollgate to live",
            "hash_keys: from off to 64 bits",
            "bounds in memory: changed; a restart is needed once it has keys",
        ];
        assert_eq!(changes(before, after), expected.map(|text| format!("policy p: {text}")));
        let fixed = "p: {algorithm: fixed_window, limit: 5 per 1h}";
        assert_eq!(
            changes("p: {limit: 5 per 1h}", fixed),
            ["policy p: limit p: from 5 per 1h to fixed_window 5 per 1h"]
        );
    }

    #[test]
    fn overrides_are_counted_without_their_keys() {
        let of = |overrides: &str| format!("p: {{limit: 1 per 1s, overrides: {{{overrides}}}}}");
        let limit = |key: &str, limit: u64| format!("{key}: {{limit: {limit} per 1s}}");
        let before = of(&[limit("ada", 5), limit("bob", 5), limit("eve", 5)].join(", "));
        let after = of(&[limit("ada", 5), limit("bob", 6), limit("zoe", 5)].join(", "));
        assert_eq!(
            changes(&before, &after),
            ["policy p: overrides: 1 added, 1 changed, 1 removed"]
        );
    }
}

//! The policies of a file: from words to limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate::algorithm::{
    Anchor, FixedWindow, Gcra, Kind, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket,
};
use tollgate::{Limit, Name, OutageMode, Quota, Rule};

use super::complaint::Complaint;
use super::section::Section;
use super::values::{outage, rate, shown, truth, whole};
use super::yaml::{Content, Node};
use crate::policy::{AD_HOC_POLICY, Bound, KeyHash, Policy, ad_hoc_limit, time_to_refill};

/// The most limits of one policy.
pub(super) const LIMITS_MAX: usize = 16;

/// What policies get unless they say otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults<'a> {
    pub(super) on_outage: OutageMode,
    /// What key hashes are made with.
    pub(super) hash_secret: &'a str,
}

/// Reads `policies:`.
pub(super) fn read(node: &Node, defaults: Defaults<'_>, wrong: &mut Vec<Complaint>) -> Vec<Policy> {
    let Some(section) = Section::of(node, "policies", wrong) else { return Vec::new() };
    let mut policies = Vec::new();
    let namespace = |limit: &Limit| format!("{}:{}", limit.prefix(), limit.policy());
    let throttled = |limit| (namespace(limit), "CL.THROTTLE".to_owned());
    let mut owners: BTreeMap<String, String> = ad_hoc_limit().iter().map(throttled).collect();
    for entry in section.named() {
        let path = format!("policies.{}", shown(&entry.name));
        let Some(policy) = policy(&entry.name, &entry.value, (&path, defaults), wrong) else {
            continue;
        };
        // `a.b` may be a policy, or the limit `b` of the policy `a`: keys must never meet.
        // Overrides share keys with the policy they belong to, as they should.
        let its: BTreeSet<String> = policy.every_limit().map(namespace).collect();
        for namespace in its {
            let owner = format!("the policy in line {}", entry.line);
            if let Some(earlier) = owners.insert(namespace, owner) {
                let message = format!("shares its keys with {earlier}; rename it");
                wrong.push(Complaint::at(entry.line, path.clone(), message));
            }
        }
        policies.push(policy);
    }
    policies
}

fn policy(
    name: &str,
    node: &Node,
    (path, defaults): (&str, Defaults<'_>),
    wrong: &mut Vec<Complaint>,
) -> Option<Policy> {
    let mut section = Section::of(node, path, wrong)?;
    let policy = match Name::new("policy", name) {
        Ok(policy) if name != AD_HOC_POLICY => policy,
        Ok(_) => {
            wrong.push(Complaint::at(section.line, path, "is reserved for CL.THROTTLE; rename it"));
            return None;
        }
        Err(error) => {
            wrong.push(Complaint::at(section.line, path, error.message()));
            return None;
        }
    };
    let on_outage = section.parsed("on_outage", outage, wrong).unwrap_or(defaults.on_outage);
    let shadow = section.parsed("shadow", truth, wrong).unwrap_or(false);
    let prefix = section.text("prefix", wrong).map(str::to_owned);
    let hash = key_hash(&mut section, defaults, wrong);
    let overrides = section.node("overrides");
    let place = Place { policy: &policy, prefix: prefix.as_deref(), on_outage };
    let bounds = bounds(&mut section, &place, wrong);
    section.finish(wrong);
    let mut built = Policy::new(policy.clone(), bounds?).shadowed(shadow).hashing(hash);
    if let Some(node) = overrides {
        let section = Section::of(node, &format!("{path}.overrides"), wrong)?;
        for entry in section.named() {
            // Keys may be secret: an error names the line and not the key.
            let path = format!("{path}.overrides");
            let mut section = Section::of(&entry.value, &path, wrong)?;
            let bounds = self::bounds(&mut section, &place, wrong);
            section.finish(wrong);
            built = built.overriding(&entry.name, bounds?);
        }
    }
    Some(built)
}

fn key_hash(
    section: &mut Section<'_>,
    defaults: Defaults<'_>,
    wrong: &mut Vec<Complaint>,
) -> Option<KeyHash> {
    let bits = section.parsed("hash_keys", whole, wrong)?;
    if defaults.hash_secret.is_empty() {
        let message = "needs a secret: set hash_secret, or TOLLGATE_HASH_SECRET";
        wrong.push(Complaint::at(
            section.line_of("hash_keys"),
            section.path_of("hash_keys"),
            message,
        ));
        return None;
    }
    let hash = KeyHash::new(defaults.hash_secret.as_bytes(), bits);
    if hash.is_none() {
        let message = format!("{bits} bits are not accepted; accepted: 1 to 256");
        wrong.push(Complaint::at(
            section.line_of("hash_keys"),
            section.path_of("hash_keys"),
            message,
        ));
    }
    hash
}

/// Where limits belong.
struct Place<'a> {
    policy: &'a Name,
    prefix: Option<&'a str>,
    on_outage: OutageMode,
}

/// The one limit of a section, or its list of `limits`.
fn bounds(
    section: &mut Section<'_>,
    place: &Place<'_>,
    wrong: &mut Vec<Complaint>,
) -> Option<Vec<Bound>> {
    let Some(node) = section.node("limits") else {
        return bound(section, place, None, wrong).map(|bound| vec![bound]);
    };
    let path = section.path_of("limits");
    let items = match &node.content {
        Content::List(items) if (1..=LIMITS_MAX).contains(&items.len()) => items,
        _ => {
            let message =
                format!("is {}; accepted: a list of 1 to {LIMITS_MAX} limits", node.kind());
            wrong.push(Complaint::at(node.line, path, message));
            return None;
        }
    };
    let mut bounds: Vec<Bound> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let mut section = Section::of(item, &format!("{path}[{index}]"), wrong)?;
        let name = section.text("name", wrong);
        let Some(name) = name else {
            wrong.push(Complaint::at(section.line, section.path_of("name"), "is missing"));
            continue;
        };
        let bound = bound(&mut section, place, Some(name), wrong);
        if bounds.iter().any(|earlier| earlier.name == name) {
            wrong.push(Complaint::at(section.line, section.path_of("name"), "appears twice"));
        }
        section.finish(wrong);
        bounds.extend(bound);
    }
    (bounds.len() == items.len()).then_some(bounds)
}

/// One limit: its algorithm, and the fields that this algorithm has.
fn bound(
    section: &mut Section<'_>,
    place: &Place<'_>,
    name: Option<&str>,
    wrong: &mut Vec<Complaint>,
) -> Option<Bound> {
    let algorithm = section.text("algorithm", wrong).unwrap_or("gcra");
    let (rule, window) = match Kind::of_name(algorithm) {
        Some(Kind::Gcra) => {
            let (burst, quota) = (number(section, "burst", wrong), quota(section, "limit", wrong)?);
            let burst = burst.unwrap_or(quota.limit);
            made(section, Gcra::with_burst(quota, burst), time_to_refill(burst, quota), wrong)?
        }
        Some(Kind::TokenBucket) => {
            let capacity = number(section, "capacity", wrong);
            let refill = quota(section, "refill", wrong)?;
            let capacity = capacity.unwrap_or(refill.limit);
            let window = time_to_refill(capacity, refill);
            made(section, TokenBucket::new(capacity, refill), window, wrong)?
        }
        Some(Kind::LeakyBucket) => {
            let (queue, quota) = (number(section, "queue", wrong), quota(section, "rate", wrong)?);
            let queue = queue.unwrap_or(0);
            let window = time_to_refill(queue.saturating_add(1), quota);
            made(section, LeakyBucket::new(quota, queue), window, wrong)?
        }
        Some(Kind::FixedWindow) => {
            let anchor = section.parsed("anchor", anchor, wrong).unwrap_or(Anchor::Epoch);
            let quota = quota(section, "limit", wrong)?;
            made(section, FixedWindow::new(quota, anchor), quota.period, wrong)?
        }
        Some(Kind::SlidingWindow) => {
            let buckets = number(section, "buckets", wrong).unwrap_or(1);
            let quota = quota(section, "limit", wrong)?;
            made(section, SlidingWindow::with_buckets(quota, buckets), quota.period, wrong)?
        }
        Some(Kind::SlidingLog) => {
            let quota = quota(section, "limit", wrong)?;
            made(section, SlidingLog::new(quota), quota.period, wrong)?
        }
        None => {
            let accepted = Kind::ALL.map(Kind::name).join(", ");
            let message = format!("{:?} is none; accepted: {accepted}", shown(algorithm));
            let line = section.line_of("algorithm");
            wrong.push(Complaint::at(line, section.path_of("algorithm"), message));
            return None;
        }
    };
    match limit(place, name, rule) {
        Ok(limit) => {
            let name =
                name.map_or_else(|| Ok(place.policy.clone()), |name| Name::new("name", name));
            name.ok().map(|name| Bound { name, limit, window })
        }
        Err(error) => {
            let field = error.field().unwrap_or("name").to_owned();
            let field = if field == "policy" { "name".to_owned() } else { field };
            wrong.push(Complaint::at(section.line, section.path_of(&field), error.message()));
            None
        }
    }
}

fn limit(place: &Place<'_>, name: Option<&str>, rule: Rule) -> tollgate::Result<Limit> {
    let full = match name {
        Some(name) => format!("{}.{name}", place.policy),
        None => place.policy.to_string(),
    };
    let limit = Limit::with_rule(&full, rule)?.on_outage(place.on_outage);
    match place.prefix {
        Some(prefix) => limit.with_prefix(prefix),
        None => Ok(limit),
    }
}

/// An algorithm that was accepted, or a complaint about the field that was not.
fn made<A: tollgate::algorithm::Algorithm + 'static>(
    section: &Section<'_>,
    algorithm: tollgate::Result<A>,
    window: Duration,
    wrong: &mut Vec<Complaint>,
) -> Option<(Rule, Duration)> {
    match algorithm {
        Ok(algorithm) => Some((Rule::new(algorithm), window)),
        Err(error) => {
            let field = error.field().unwrap_or("limit");
            let line = section.line_of(field);
            wrong.push(Complaint::at(line, section.path_of(field), error.message()));
            None
        }
    }
}

fn number(
    section: &mut Section<'_>,
    name: &'static str,
    wrong: &mut Vec<Complaint>,
) -> Option<u64> {
    section.parsed(name, whole, wrong)
}

/// A rate, which must be there.
fn quota(
    section: &mut Section<'_>,
    name: &'static str,
    wrong: &mut Vec<Complaint>,
) -> Option<Quota> {
    let before = wrong.len();
    let quota = section.parsed(name, rate, wrong);
    if quota.is_none() && wrong.len() == before {
        let message = "is missing; accepted: a rate such as 100 per 1m";
        wrong.push(Complaint::at(section.line, section.path_of(name), message));
    }
    quota
}

fn anchor(text: &str) -> Result<Anchor, String> {
    match text {
        "epoch" => Ok(Anchor::Epoch),
        "first_hit" => Ok(Anchor::FirstHit),
        _ => Err(format!("{:?} is not accepted; accepted: epoch, first_hit", shown(text))),
    }
}

//! The policies of a file: from text to limits.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::algorithm::{Kind, OptionSpec, QuotaFields};
use tollgate_core::store::Bounds;
use tollgate_core::{Limit, Name, OutageMode, Quota, Rule};
use tollgate_http::HashKey;

use super::algorithms::{DEFAULT_ALGORITHM, option_value};
use super::values::{
    boolean, duration, outage_mode, rate, refunds, shorten, when_full, when_ids_full, whole,
};
use super::yaml::{Content, Node};
use super::{ConfigError, Section};
use crate::policy::{
    AD_HOC_POLICY, AdHocBounds, DEFAULT_POLICY, LIMITS_MAX, NamedLimit, Policies, Policy,
    ad_hoc_limit,
};

type Errors = Vec<ConfigError>;

/// Settings outside of `policies:` that policies depend on.
#[derive(Clone, Copy, Debug)]
pub struct PolicyDefaults<'a> {
    /// The capacity of the policy `default`, unless the file has one of that name.
    pub capacity: u64,
    /// The refill of that bucket.
    pub refill: Quota,
    /// The outage mode of policies that set none.
    pub on_outage: OutageMode,
    /// The secret of key hashes; empty for none.
    pub hash_secret: &'a str,
    /// The bounds of limits that are part of a request.
    pub ad_hoc: AdHocBounds,
    /// How request ids are kept under policies that do not say it: [`request_ids`].
    pub request_ids: Bounds,
}

impl PolicyDefaults<'_> {
    /// Reads `policies:` of the top section of a file, if it is there.
    pub fn read(&self, top: &mut Section<'_>, errors: &mut Errors) -> Vec<Policy> {
        top.node("policies").map_or_else(Vec::new, |node| self.policies(node, errors))
    }

    /// The policies that were read, and `default` if it is not one of them.
    ///
    /// # Errors
    /// When the bucket of `default` is out of range; the error names the setting.
    pub fn build(&self, policies: Vec<Policy>) -> Result<Policies, ConfigError> {
        let has_default = policies.iter().any(|policy| policy.name().as_str() == DEFAULT_POLICY);
        let built = Policies::new(self.capacity, self.refill, self.on_outage, policies);
        let bound = |policies: Policies| {
            let policies = policies.bound_ad_hoc(self.ad_hoc);
            if has_default { policies } else { policies.bound_default(self.request_ids) }
        };
        built.map(bound).map_err(|error| {
            let setting = match error.field() {
                Some("capacity") => "default_capacity",
                _ => "default_refill_rate",
            };
            ConfigError::new(setting, error.message())
        })
    }

    fn policies(&self, node: &Node, errors: &mut Errors) -> Vec<Policy> {
        let Some(section) = Section::of(node, "policies", errors) else { return Vec::new() };
        let mut policies = Vec::new();
        let namespace = |limit: &Limit| format!("{}:{}", limit.prefix(), limit.policy());
        let ad_hoc = |limit| (namespace(limit), "CL.THROTTLE".to_owned());
        // Extended, not collected: collecting sorts first, with a sort of its own for each type.
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        owners.extend(ad_hoc_limit().iter().map(ad_hoc));
        for entry in section.entries() {
            let path = format!("policies.{}", shorten(&entry.name));
            let Some(policy) = self.policy(&entry.name, &entry.value, &path, errors) else {
                continue;
            };
            // `a.b` may be a policy, or the limit `b` of the policy `a`: their keys must differ.
            // Overrides share the keys of the policy they belong to.
            let mut namespaces: BTreeSet<String> = BTreeSet::new();
            namespaces.extend(policy.every_limit().map(namespace));
            for namespace in namespaces {
                let owner = format!("the policy in line {}", entry.line);
                if let Some(earlier) = owners.insert(namespace, owner) {
                    let message = format!("shares its keys with {earlier}; rename it");
                    errors.push(ConfigError::at(entry.line, path.clone(), message));
                }
            }
            policies.push(policy);
        }
        policies
    }

    fn policy(&self, name: &str, node: &Node, path: &str, errors: &mut Errors) -> Option<Policy> {
        let mut section = Section::of(node, path, errors)?;
        let policy = match Name::new("policy", name) {
            Ok(policy) if name != AD_HOC_POLICY => policy,
            Ok(_) => {
                let message = "is reserved for CL.THROTTLE; rename it";
                errors.push(ConfigError::at(section.line, path, message));
                return None;
            }
            Err(error) => {
                errors.push(ConfigError::at(section.line, path, error.message()));
                return None;
            }
        };
        let on_outage = section.parsed("on_outage", outage_mode, errors);
        let shadow = section.parsed("shadow", boolean, errors).unwrap_or(false);
        let refunds = section.parsed("refunds", refunds, errors).unwrap_or_default();
        let prefix = section.text("prefix", errors);
        let max_debt = section.parsed("max_debt", whole, errors);
        let bounds = bounds(&mut section, errors).or(&self.request_ids);
        let hash = self.key_hash(&mut section, errors);
        let overrides = section.node("overrides");
        let on_outage = on_outage.unwrap_or(self.on_outage);
        let scope = Scope { policy: &policy, prefix, on_outage, max_debt, bounds };
        let limits = scope.limits(&mut section, errors);
        section.finish(errors);
        let built = Policy::new(policy.clone(), limits?).shadow(shadow).hash_keys(hash);
        let mut built = built.accept_refunds(refunds);
        if let Some(node) = overrides {
            // Keys may be secret: an error names the line and not the key.
            let path = format!("{path}.overrides");
            let section = Section::of(node, &path, errors)?;
            for entry in section.entries() {
                let mut section = Section::of(&entry.value, &path, errors)?;
                let limits = scope.limits(&mut section, errors);
                section.finish(errors);
                built = built.override_key(&entry.name, limits?);
            }
        }
        Some(built)
    }

    fn key_hash(&self, section: &mut Section<'_>, errors: &mut Errors) -> Option<HashKey> {
        const FIELD: &str = "hash_keys";
        let bits = section.parsed(FIELD, whole, errors)?;
        if self.hash_secret.is_empty() {
            let message = "needs a secret: set hash_secret, or TOLLGATE_HASH_SECRET";
            section.error(FIELD, message, errors);
            return None;
        }
        let hash = HashKey::from_any_secret(self.hash_secret.as_bytes());
        let hash = hash.and_then(|hash| hash.bits(bits));
        hash.inspect_err(|error| section.error(FIELD, error.message(), errors)).ok()
    }
}

/// What the limits of a policy have in common.
struct Scope<'a> {
    policy: &'a Name,
    prefix: Option<&'a str>,
    on_outage: OutageMode,
    max_debt: Option<u64>,
    bounds: Bounds,
}

impl Scope<'_> {
    /// The one limit of a section, or its list of `limits`.
    fn limits(&self, section: &mut Section<'_>, errors: &mut Errors) -> Option<Vec<NamedLimit>> {
        let Some(node) = section.node("limits") else {
            return self.limit(section, None, errors).map(|limit| vec![limit]);
        };
        let path = section.path_of("limits");
        let items = match &node.content {
            Content::List(items) if (1..=LIMITS_MAX).contains(&items.len()) => items,
            _ => {
                let message =
                    format!("is {}; accepted: a list of 1 to {LIMITS_MAX} limits", node.kind());
                errors.push(ConfigError::at(node.line, path, message));
                return None;
            }
        };
        let mut limits: Vec<NamedLimit> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let mut section = Section::of(item, &format!("{path}[{index}]"), errors)?;
            let Some(name) = section.text("name", errors) else {
                errors.push(ConfigError::at(section.line, section.path_of("name"), "is missing"));
                continue;
            };
            let limit = self.limit(&mut section, Some(name), errors);
            if limits.iter().any(|earlier| earlier.name == name) {
                let error = ConfigError::at(section.line, section.path_of("name"), "appears twice");
                errors.push(error);
            }
            section.finish(errors);
            limits.extend(limit);
        }
        (limits.len() == items.len()).then_some(limits)
    }

    /// One limit: its algorithm, and the fields that this algorithm has.
    fn limit(
        &self,
        section: &mut Section<'_>,
        name: Option<&str>,
        errors: &mut Errors,
    ) -> Option<NamedLimit> {
        let algorithm = section.text("algorithm", errors).unwrap_or(DEFAULT_ALGORITHM.name());
        let Some(kind) = Kind::of_name(algorithm) else {
            let accepted = Kind::ALL.map(Kind::name).join(", ");
            let message = format!("{:?} is none; accepted: {accepted}", shorten(algorithm));
            section.error("algorithm", message, errors);
            return None;
        };
        let QuotaFields { rate, option, .. } = kind.fields();
        let value = |option: OptionSpec| {
            section.parsed(option.name, |text| option_value(&option, text), errors)
        };
        let option = option.and_then(value);
        let quota = required_rate(section, rate, errors)?;
        let rule = match kind.build(quota, option) {
            Ok(rule) => rule,
            Err(error) => {
                let field = error.field().unwrap_or("limit");
                section.error(field, error.message(), errors);
                return None;
            }
        };
        let named = self.named(name, rule);
        let report = |error: &tollgate_core::Error| {
            let field = error.field().filter(|field| *field != "policy").unwrap_or("name");
            let path = section.path_of(field);
            errors.push(ConfigError::at(section.line, path, error.message()));
        };
        named.inspect_err(report).ok()
    }

    fn named(&self, name: Option<&str>, rule: Rule) -> tollgate_core::Result<NamedLimit> {
        let full = match name {
            Some(name) => format!("{}.{name}", self.policy),
            None => self.policy.to_string(),
        };
        let limit = Limit::with_rule(&full, rule)?.on_outage(self.on_outage).bounded(self.bounds);
        let limit = match self.max_debt {
            Some(units) => limit.max_debt(units),
            None => limit,
        };
        let limit = match self.prefix {
            Some(prefix) => limit.with_prefix(prefix)?,
            None => limit,
        };
        let name = match name {
            Some(name) => Name::new("name", name)?,
            None => self.policy.clone(),
        };
        Ok(NamedLimit { name, limit })
    }
}

/// How request ids are kept, by the section `request_ids` of a policy, or of the file for all of
/// them: how long, how many, and what happens to more.
pub fn request_ids(of: &mut Section<'_>, errors: &mut Errors) -> Bounds {
    const FIELD: &str = "request_ids";
    let mut bounds = Bounds::new();
    let path = of.path_of(FIELD);
    let Some(node) = of.node(FIELD) else { return bounds };
    let Some(mut section) = Section::of(node, &path, errors) else { return bounds };
    if let Some(keep) = section.parsed("keep", duration, errors) {
        bounds = bounds.keep_request_ids(keep);
    }
    if let Some(max) = section.parsed("max", count, errors) {
        bounds = bounds.max_request_ids(max);
    }
    if let Some(when_full) = section.parsed("when_full", when_ids_full, errors) {
        bounds = bounds.when_ids_full(when_full);
    }
    if let Err(error) = bounds.validate() {
        let name = if error.field() == Some("keep_request_ids") { "keep" } else { "max" };
        section.error(name, error.message(), errors);
    }
    section.finish(errors);
    bounds
}

fn count(text: &str) -> Result<usize, String> {
    whole(text).map(|max| usize::try_from(max).unwrap_or(usize::MAX))
}

/// How much the memory store keeps for each limit of a policy, and how request ids are kept.
fn bounds(section: &mut Section<'_>, errors: &mut Errors) -> Bounds {
    let mut keys = Bounds::new();
    if let Some(max) = section.parsed("max_keys", count, errors) {
        keys = keys.max_keys(max);
    }
    if let Some(when_full) = section.parsed("when_full", when_full, errors) {
        keys = keys.when_full(when_full);
    }
    if let Err(error) = keys.validate() {
        section.error("max_keys", error.message(), errors);
    }
    keys.or(&request_ids(section, errors))
}

/// A rate; its absence is an error.
fn required_rate(
    section: &mut Section<'_>,
    name: &'static str,
    errors: &mut Errors,
) -> Option<Quota> {
    let before = errors.len();
    let quota = section.parsed(name, rate, errors);
    if quota.is_none() && errors.len() == before {
        let message = "is missing; accepted: a rate such as 100 per 1m";
        errors.push(ConfigError::at(section.line, section.path_of(name), message));
    }
    quota
}

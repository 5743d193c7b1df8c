//! The policies of a file: from text to limits.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::store::Bounds;
use tollgate_core::{Limit, Name, OutageMode, Quota};
use tollgate_http::HashKey;

use super::limits::{ReadLimits, Scope};
use super::values::{
    boolean, duration, outage_mode, rate, refunds, shorten, when_full, when_ids_full, whole,
};
use super::yaml::{Content, Entry, Node};
use super::{ConfigError, Section};
use crate::policy::{
    AD_HOC_POLICY, AdHocBounds, DEFAULT_POLICY, Policies, Policy, Written, WrittenValue,
    ad_hoc_limit,
};

type Errors = Vec<ConfigError>;

/// The fields of a policy beside its limits, its outage mode and its overrides.
const BESIDE_LIMITS: [&str; 7] =
    ["shadow", "refunds", "max_debt", "prefix", "hash_keys", "max_keys", "when_full"];

/// The section that says how request ids are kept.
const REQUEST_IDS: &str = "request_ids";

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
            let Some(policy) = self.policy(entry, &path, errors) else { continue };
            // `a.b` may be a policy, or the limit `b` of the policy `a`: their keys must differ.
            // Overrides share the keys of the policy they belong to.
            let mut namespaces: BTreeSet<String> = BTreeSet::new();
            namespaces.extend(policy.every_limit().map(namespace));
            for namespace in namespaces {
                let owner = format!("the policy in line {}", entry.place.line);
                if let Some(earlier) = owners.insert(namespace, owner) {
                    let message = format!("shares its keys with {earlier}; rename it");
                    errors.push(ConfigError::at(entry.place, path.clone(), message));
                }
            }
            policies.push(policy);
        }
        policies
    }

    /// One policy. What is wrong is reported, and the rest is read nevertheless.
    fn policy(&self, entry: &Entry, path: &str, errors: &mut Errors) -> Option<Policy> {
        let before = errors.len();
        let name = match policy_name(&entry.name) {
            Ok(name) => name,
            Err(message) => {
                errors.push(ConfigError::at(entry.place, path, message));
                // The rest is read under another name.
                Name::new("policy", "policy").ok()?
            }
        };
        if let Content::Text(text) = &entry.value.content
            && rate(text).is_ok()
        {
            let message = format!("is a rate alone; write {{limit: {text}}}");
            errors.push(ConfigError::at(entry.value.place, path, message));
            return None;
        }
        let mut section = Section::of(&entry.value, path, errors)?;
        let written = as_written(&section);
        let on_outage = section.parsed("on_outage", outage_mode, errors);
        let shadow = section.parsed("shadow", boolean, errors).unwrap_or(false);
        let refunds = section.parsed("refunds", refunds, errors).unwrap_or_default();
        let prefix = section.text("prefix", errors);
        let max_debt = section.parsed("max_debt", whole, errors);
        let bounds = bounds(&mut section, errors).or(&self.request_ids);
        let hash = self.key_hash(&mut section, errors);
        let overrides = section.node("overrides");
        let on_outage = on_outage.unwrap_or(self.on_outage);
        let scope = Scope { policy: &name, prefix, on_outage, max_debt, bounds };
        let limits = scope.limits(&mut section, errors);
        section.finish(errors);
        let keys = overrides.map_or_else(Vec::new, |node| {
            overridden(&scope, &limits, (node, &format!("{path}.overrides")), errors)
        });
        if errors.len() > before {
            return None;
        }
        let mut whole = Written::default();
        limits.write(&mut whole);
        whole.text("on_outage", on_outage.as_str());
        written.into_iter().for_each(|(name, value)| whole.add(&name, value));
        let mut built = Policy::new(name.clone(), limits.limits()?);
        built = built.shadow(shadow).hash_keys(hash).accept_refunds(refunds);
        let mut of_keys = Written::default();
        for (key, limits) in keys {
            let mut own = Written::default();
            limits.write(&mut own);
            of_keys.add(key, WrittenValue::Section(own));
            built = built.override_key(key, limits.limits()?);
        }
        if of_keys.fields().next().is_some() {
            whole.add("overrides", WrittenValue::Section(of_keys));
        }
        Some(built.written_as(whole))
    }

    fn key_hash(&self, section: &mut Section<'_>, errors: &mut Errors) -> Option<HashKey> {
        const FIELD: &str = "hash_keys";
        let bits = section.parsed(FIELD, hash_bits, errors)?;
        if self.hash_secret.is_empty() {
            let message = "needs the secret of the hash, and none is set; write `hash_secret` at \
                           the top of the file, or set TOLLGATE_HASH_SECRET in the environment";
            errors.push(ConfigError::at(
                section.name_place_of(FIELD),
                section.path_of(FIELD),
                message,
            ));
            return None;
        }
        let hash = HashKey::from_any_secret(self.hash_secret.as_bytes());
        let hash = hash.and_then(|hash| hash.bits(bits));
        hash.inspect_err(|error| section.error(FIELD, error.message(), errors)).ok()
    }
}

/// How many bits of the hash of a key remain.
fn hash_bits(text: &str) -> Result<u64, String> {
    whole(text).map_err(|_| {
        let text = shorten(text);
        format!("{text:?} is not a number of bits; write how many of the hash are kept, such as 64")
    })
}

/// The limits of every key with an override.
fn overridden<'n>(
    scope: &Scope<'_>,
    limits: &ReadLimits,
    (node, path): (&'n Node, &str),
    errors: &mut Errors,
) -> Vec<(&'n str, ReadLimits)> {
    let mut all = Vec::new();
    // Keys may be secret: an error names the line and not the key.
    let Some(section) = Section::of(node, path, errors) else { return all };
    for entry in section.entries() {
        let Some(mut section) = Section::of(&entry.value, path, errors) else { continue };
        let own = scope.overridden(limits, &mut section, errors);
        section.finish(errors);
        all.push((entry.name.as_str(), own));
    }
    all
}

/// The name of a policy.
fn policy_name(name: &str) -> Result<Name, String> {
    if name == AD_HOC_POLICY {
        return Err("is reserved for CL.THROTTLE; rename it".to_owned());
    }
    Name::new("policy", name).map_err(|error| error.message().to_owned())
}

/// The fields of a policy beside its limits, as they were written.
fn as_written(section: &Section<'_>) -> Vec<(String, WrittenValue)> {
    let beside = |entry: &Entry| match &entry.value.content {
        Content::Text(text) if BESIDE_LIMITS.contains(&&*entry.name) => {
            Some((entry.name.clone(), WrittenValue::Text(text.clone())))
        }
        Content::Map(fields) if entry.name == REQUEST_IDS => {
            let mut own = Written::default();
            for field in fields {
                if let Content::Text(text) = &field.value.content {
                    own.text(&field.name, text);
                }
            }
            Some((entry.name.clone(), WrittenValue::Section(own)))
        }
        _ => None,
    };
    section.entries().iter().filter_map(beside).collect()
}

/// How request ids are kept, by the section `request_ids` of a policy, or of the file for all of
/// them: how long, how many, and what happens to more.
pub fn request_ids(of: &mut Section<'_>, errors: &mut Errors) -> Bounds {
    let mut bounds = Bounds::new();
    let path = of.path_of(REQUEST_IDS);
    let Some(node) = of.node(REQUEST_IDS) else { return bounds };
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

//! Configuration text: YAML with line numbers, and the policies in it.
//!
//! A host that has settings of its own, such as a server, reads them from the same file with
//! [`Section`], and its policies with [`PolicyDefaults`]. A host without any uses
//! [`policies_from_yaml`].

mod algorithms;
mod error;
mod excerpt;
mod limits;
mod overrides;
mod policies;
mod section;
pub mod values;
pub mod yaml;

use tollgate_core::{OutageMode, Quota};

pub use crate::policy::LIMITS_MAX;
use crate::policy::{AdHocBounds, Policies};

pub use algorithms::{DEFAULT_ALGORITHM, algorithms_table};
pub use error::{ConfigError, ConfigErrors, Location};
pub use policies::{PolicyDefaults, request_ids};
pub use section::Section;

/// The capacity of the policy `default`, when neither the file nor a setting says otherwise.
pub const DEFAULT_CAPACITY: u64 = 10;

/// The fields of [`policies_from_yaml`] that hold no secret.
const PUBLIC: [&str; 5] =
    ["policies", "default_capacity", "default_refill_rate", "on_outage", "request_ids"];

/// Reads policies from YAML, and with them the settings that policies depend on:
/// `default_capacity`, `default_refill_rate`, `on_outage`, `hash_secret` and `request_ids`.
///
/// # Errors
/// All errors of the text.
pub fn policies_from_yaml(text: &str) -> Result<Policies, ConfigErrors> {
    policies_with_secret(text, "")
}

/// As [`policies_from_yaml`], with the secret of key hashes from elsewhere, for hosts that keep
/// secrets apart. A secret in the text counts first.
///
/// # Errors
/// All errors of the text.
pub fn policies_with_secret(text: &str, hash_secret: &str) -> Result<Policies, ConfigErrors> {
    let mut errors = Vec::new();
    match read(text, hash_secret, &mut errors) {
        Some(policies) if errors.is_empty() => Ok(policies),
        _ => Err(ConfigErrors::of_file((None, text), errors, |name| PUBLIC.contains(&name))),
    }
}

fn read(text: &str, secret: &str, errors: &mut Vec<ConfigError>) -> Option<Policies> {
    let root = yaml::parse(text, errors)?;
    let mut top = Section::of(&root, "", errors)?;
    let capacity = top.parsed("default_capacity", values::whole, errors);
    let refill = top.parsed("default_refill_rate", values::per_second, errors);
    let on_outage = top.parsed("on_outage", values::outage_mode, errors);
    let hash_secret = top.text("hash_secret", errors);
    let defaults = PolicyDefaults {
        capacity: capacity.unwrap_or(DEFAULT_CAPACITY),
        refill: refill.unwrap_or_else(|| Quota::per_second(1)),
        on_outage: on_outage.unwrap_or(OutageMode::Open),
        hash_secret: hash_secret.unwrap_or(secret),
        ad_hoc: AdHocBounds::default(),
        request_ids: request_ids(&mut top, errors),
    };
    let policies = defaults.read(&mut top, errors);
    let policies = defaults.build(policies);
    let report = |error: ConfigError| top.error(&error.field, error.message, errors);
    let policies = policies.map_err(report).ok();
    top.finish(errors);
    policies
}

#[cfg(test)]
mod tests {
    use super::policies_from_yaml;

    #[test]
    fn policies_and_the_settings_they_depend_on_are_read() {
        let text = "
default_capacity: 3
on_outage: closed
policies: {a: {limit: 5 per 1m}, b: {limit: 6 per 1m, on_outage: local}}
";
        let policies = policies_from_yaml(text).unwrap();
        let found = policies.iter().map(|policy| {
            let limit = policy.limits().next().unwrap();
            (policy.name().as_str(), limit.rule().ceiling(), limit.outage_mode().as_str())
        });
        let expected = [("a", 5, "closed"), ("b", 6, "local"), ("default", 3, "closed")];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn every_error_names_its_line() {
        let errors = policies_from_yaml("htpp: x\npolicies:\n  a: {limit: x}\n").unwrap_err();
        let lines: Vec<_> = errors.list.iter().map(|error| (error.line(), &*error.field)).collect();
        assert_eq!(lines, [(Some(1), "htpp"), (Some(3), "policies.a.limit")]);
        assert!(policies_from_yaml("default_capacity: 0").is_err());
    }
}

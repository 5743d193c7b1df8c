//! A key under its policy: from a key to charges.

use std::borrow::Cow;
use std::sync::Arc;

use tollgate_core::{Charge, Limit, Name};

use super::{LimitInfo, LimitName, LimitSet, NamedLimit, Policy};

/// The limits and the subject of a key.
#[derive(Debug)]
pub struct ResolvedPolicy<'a> {
    name: &'a Name,
    limits: Limits<'a>,
    subject: Cow<'a, str>,
    shadow: bool,
}

#[derive(Clone, Copy, Debug)]
enum Limits<'a> {
    OfPolicy(&'a LimitSet),
    /// A limit that is part of the request.
    AdHoc(&'a Limit),
}

impl<'a> ResolvedPolicy<'a> {
    pub(super) fn of_policy(policy: &'a Policy, key: &'a str) -> Self {
        let subject = match &policy.hash {
            Some(hash) => Cow::Owned(hash.hash(key)),
            None => Cow::Borrowed(key),
        };
        let limits = Limits::OfPolicy(policy.set_of(key));
        Self { name: &policy.name, limits, subject, shadow: policy.shadow }
    }

    /// A limit that is part of the request.
    pub(crate) fn of_limit(limit: &'a Limit, key: &'a str) -> Self {
        let limits = Limits::AdHoc(limit);
        Self { name: limit.policy(), limits, subject: Cow::Borrowed(key), shadow: false }
    }

    /// The name of the policy.
    #[must_use]
    pub const fn name(&self) -> &Name {
        self.name
    }

    /// The limits, in the order in which they are charged.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &'a Limit> {
        let ad_hoc = match self.limits {
            Limits::OfPolicy(_) => None,
            Limits::AdHoc(limit) => Some(limit),
        };
        self.named().iter().map(|named| &named.limit).chain(ad_hoc)
    }

    fn named(&self) -> &'a [NamedLimit] {
        match self.limits {
            Limits::OfPolicy(set) => &set.limits,
            Limits::AdHoc(_) => &[],
        }
    }

    /// The names of the limits in a response; none for a limit that is part of the request.
    pub(crate) fn names(&self) -> Arc<[LimitName]> {
        match self.limits {
            Limits::OfPolicy(set) => Arc::clone(&set.names),
            Limits::AdHoc(_) => Arc::default(),
        }
    }

    /// The names of the limits within the policy; none for a limit that is part of the request.
    pub(crate) fn limit_names(&self) -> impl Iterator<Item = &'a Name> {
        self.named().iter().map(|named| &named.name)
    }

    /// The limit of this name within the policy: its name, and a charge of one unit on it.
    pub(crate) fn charge_on(&self, name: &str) -> Option<(&'a Name, Charge<'_>)> {
        let named = self.named().iter().find(|named| named.name == name)?;
        Some((&named.name, named.limit.charge(&self.subject)))
    }

    /// A charge of one unit on one of its limits.
    pub(crate) fn charge<'c>(&'c self, limit: &'c Limit) -> Charge<'c> {
        limit.charge(&self.subject)
    }

    /// The name within the policy of the limit with this name of its own.
    pub(crate) fn limit_named(&self, own: &Name) -> Option<&'a Name> {
        let named = self.named().iter().find(|named| named.limit.policy() == own)?;
        Some(&named.name)
    }

    /// The limits in numbers.
    pub(crate) fn infos(&self) -> Vec<LimitInfo> {
        self.named().iter().map(LimitInfo::of).collect()
    }

    /// Whether the policy decides and counts but never denies.
    pub(crate) const fn is_shadow(&self) -> bool {
        self.shadow
    }
}

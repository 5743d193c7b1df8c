//! The limits of a policy: from the fields of a section to a limit.

use tollgate_core::algorithm::{Kind, OptionSpec, QuotaFields};
use tollgate_core::store::Bounds;
use tollgate_core::{Limit, Name, OutageMode, Quota, Rule};

use super::algorithms::option_value;
use super::values::{rate, shorten};
use super::yaml::Content;
use super::{ConfigError, Section};
use crate::policy::{LIMITS_MAX, NamedLimit, Written, WrittenValue, nearest};

type Errors = Vec<ConfigError>;

/// What the limits of a policy have in common.
pub(super) struct Scope<'a> {
    pub(super) policy: &'a Name,
    pub(super) prefix: Option<&'a str>,
    pub(super) on_outage: OutageMode,
    pub(super) max_debt: Option<u64>,
    pub(super) bounds: Bounds,
}

/// A limit that was read.
#[derive(Clone)]
pub(super) struct ReadLimit {
    pub(super) kind: Kind,
    pub(super) limit: NamedLimit,
}

/// The limits of a section.
#[derive(Default)]
pub(super) struct ReadLimits {
    /// Those that are valid, in order.
    pub(super) list: Vec<ReadLimit>,
    /// Whether they are a list with names.
    pub(super) named: bool,
    /// Whether all of them are valid.
    pub(super) complete: bool,
    /// The limits of the policy that an override drops; `None` unless it merges with them.
    pub(super) dropped: Option<Vec<String>>,
}

impl ReadLimits {
    /// The limits alone, if all of them are valid.
    pub(super) fn limits(&self) -> Option<Vec<NamedLimit>> {
        self.complete.then(|| self.list.iter().map(|read| read.limit.clone()).collect())
    }

    /// Adds them to what a policy says.
    pub(super) fn write(&self, to: &mut Written) {
        if let Some(dropped) = &self.dropped {
            let mut by_name = Written::default();
            for ReadLimit { limit: NamedLimit { name, limit }, .. } in &self.list {
                let mut own = Written::default();
                own.limit(limit.rule());
                by_name.add(name.as_str(), WrittenValue::Section(own));
            }
            dropped.iter().for_each(|name| by_name.text(name, super::overrides::NONE));
            to.add("limits", WrittenValue::Section(by_name));
            return;
        }
        if self.named {
            let item = |ReadLimit { limit: NamedLimit { name, limit }, .. }: &ReadLimit| {
                let mut own = Written::default();
                own.text("name", name.as_str());
                own.limit(limit.rule());
                own
            };
            to.add("limits", WrittenValue::List(self.list.iter().map(item).collect()));
            return;
        }
        self.list.iter().for_each(|read| to.limit(read.limit.limit.rule()));
    }
}

impl Scope<'_> {
    /// The one limit of a section, or its list of `limits`.
    pub(super) fn limits(&self, section: &mut Section<'_>, errors: &mut Errors) -> ReadLimits {
        let Some(node) = section.node("limits") else {
            let limit = self.limit(section, None, super::DEFAULT_ALGORITHM, errors);
            let complete = limit.is_some();
            let list = limit.into_iter().collect();
            return ReadLimits { list, complete, ..ReadLimits::default() };
        };
        let path = section.path_of("limits");
        let items = match &node.content {
            Content::List(items) if (1..=LIMITS_MAX).contains(&items.len()) => items.as_slice(),
            _ => {
                let message =
                    format!("is {}; write a list of 1 to {LIMITS_MAX} limits", node.size());
                let place = section.name_place_of("limits");
                errors.push(ConfigError::at(place, path.clone(), message));
                &[]
            }
        };
        let mut list: Vec<ReadLimit> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(mut section) = Section::of(item, &path, errors) else { continue };
            let name = required_name(&mut section, errors);
            if name.is_some_and(|name| names.contains(&name)) {
                section.error("name", "appears twice; give each limit its own name", errors);
            }
            // Without a name the rest is read for its errors.
            let limit =
                self.limit(&mut section, name.or(Some("name")), super::DEFAULT_ALGORITHM, errors);
            section.finish(errors);
            list.extend(limit.filter(|_| name.is_some()));
            names.extend(name);
        }
        let complete = !items.is_empty() && list.len() == items.len();
        ReadLimits { list, named: true, complete, dropped: None }
    }

    /// One limit: its algorithm, and the fields that this algorithm has. `otherwise` is the
    /// algorithm of a section that names none.
    pub(super) fn limit(
        &self,
        section: &mut Section<'_>,
        name: Option<&str>,
        otherwise: Kind,
        errors: &mut Errors,
    ) -> Option<ReadLimit> {
        let text = section.text("algorithm", errors).unwrap_or(otherwise.name());
        let known = Kind::of_name(text);
        let names = || Kind::ALL.into_iter().map(Kind::name);
        let near = nearest(text, names());
        if known.is_none() {
            let hint = match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("accepted: {}", names().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("{:?} is not an algorithm; {hint}", shorten(text));
            section.error("algorithm", message, errors);
        }
        let Some(kind) = known.or_else(|| near.and_then(Kind::of_name)) else {
            // Its fields may be right or wrong.
            for field in Kind::ALL.into_iter().flat_map(fields_of) {
                section.node(field);
            }
            return None;
        };
        refuse_fields_of_others(section, kind, errors);
        let QuotaFields { rate, option, .. } = kind.fields();
        let before = errors.len();
        let quota = required_rate(section, rate, errors);
        let value = |option: OptionSpec| {
            section.parsed(option.name, |text| option_value(&option, text), errors)
        };
        let option = option.and_then(value);
        let rule = match kind.build(quota?, option) {
            Ok(rule) => rule,
            Err(error) => {
                section.error(error.field().unwrap_or("limit"), error.message(), errors);
                return None;
            }
        };
        let limit = self.named(name, rule).map_err(|error| {
            let field = error.field().filter(|field| *field != "policy").unwrap_or("name");
            section.error(field, error.message(), errors);
        });
        let is_right = known.is_some() && errors.len() == before;
        limit.ok().filter(|_| is_right).map(|limit| ReadLimit { kind, limit })
    }

    /// The limit of a rule, under its name within the policy.
    pub(super) fn named(
        &self,
        name: Option<&str>,
        rule: Rule,
    ) -> tollgate_core::Result<NamedLimit> {
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

/// The name of an item of `limits`; its absence is an error.
pub(super) fn required_name<'n>(section: &mut Section<'n>, errors: &mut Errors) -> Option<&'n str> {
    let before = errors.len();
    let name = section.text("name", errors);
    if name.is_none() && errors.len() == before {
        let message = "is missing; each of several limits has a name, such as `name: second`";
        errors.push(ConfigError::at(section.place, section.path_of("name"), message));
    }
    name
}

/// A rate; its absence is an error.
fn required_rate(
    section: &mut Section<'_>,
    name: &'static str,
    errors: &mut Errors,
) -> Option<Quota> {
    let before = errors.len();
    if section.text(name, errors).is_some() {
        return section.parsed(name, rate, errors);
    }
    if errors.len() == before {
        let message = "is missing; write a rate such as 100/minute";
        errors.push(ConfigError::at(section.place, section.path_of(name), message));
    }
    None
}

pub(super) fn fields_of(kind: Kind) -> impl Iterator<Item = &'static str> {
    let QuotaFields { rate, option, .. } = kind.fields();
    [Some(rate), option.map(|option| option.name)].into_iter().flatten()
}

/// Reports fields that only other algorithms have.
fn refuse_fields_of_others(section: &mut Section<'_>, kind: Kind, errors: &mut Errors) {
    let own: Vec<&str> = fields_of(kind).collect();
    for other in Kind::ALL {
        for field in fields_of(other).filter(|field| !own.contains(field)) {
            let place = section.name_place_of(field);
            let is_written = section.entries().iter().any(|entry| entry.name == field);
            let is_reported = errors.iter().any(|error| error.place == Some(place));
            if is_written && !is_reported {
                section.node(field);
                let (other, kind, own) = (other.name(), kind.name(), own.join(", "));
                let message =
                    format!("is a field of {other}, and the algorithm is {kind}; accepted: {own}");
                errors.push(ConfigError::at(place, section.path_of(field), message));
            }
        }
    }
}

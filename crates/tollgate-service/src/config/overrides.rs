//! Other limits for single keys. An override says what differs: limits merge by name, a limit keeps
//! its algorithm unless the override names another, and `none` alone drops a limit.
//!
//! Keys may be secret: no error names one.

use tollgate_core::algorithm::Kind;

use super::limits::{ReadLimit, ReadLimits, Scope, fields_of, required_name};
use super::values::{rate, shorten};
use super::yaml::{Content, Entry, Node};
use super::{ConfigError, DEFAULT_ALGORITHM, LIMITS_MAX, Location, Section};
use crate::policy::nearest;

type Errors = Vec<ConfigError>;

/// What drops a limit.
pub(super) const NONE: &str = "none";

/// A limit of an override.
struct Change<'n> {
    name: &'n str,
    place: Location,
    path: String,
    node: &'n Node,
    /// Whether it is an item of a list, which holds its name.
    is_item: bool,
}

impl Scope<'_> {
    /// The limits of one key, from those of the policy and what the section of the key says.
    pub(super) fn overridden(
        &self,
        of_policy: &ReadLimits,
        section: &mut Section<'_>,
        errors: &mut Errors,
    ) -> ReadLimits {
        if let Some(node) = section.node("limits") {
            let merged = self.merged(of_policy, section, node, errors);
            return merged.unwrap_or_default();
        }
        if of_policy.named {
            let message = format!(
                "is missing; write those that differ, and `none` for one that is dropped: the \
                 policy has the limits {}",
                names(&of_policy.list)
            );
            errors.push(ConfigError::at(section.place, section.path_of("limits"), message));
            // The error says what to write instead of these.
            for field in Kind::ALL.into_iter().flat_map(fields_of).chain(["algorithm"]) {
                section.node(field);
            }
            return ReadLimits::default();
        }
        let kind = of_policy.list.first().map_or(DEFAULT_ALGORITHM, |read| read.kind);
        let limit = self.limit(section, None, kind, errors);
        let complete = limit.is_some();
        ReadLimits { list: limit.into_iter().collect(), complete, ..ReadLimits::default() }
    }

    /// The limits of the policy with the changes of a node; `None` with an error.
    fn merged(
        &self,
        of_policy: &ReadLimits,
        section: &Section<'_>,
        node: &Node,
        errors: &mut Errors,
    ) -> Option<ReadLimits> {
        let before = errors.len();
        let (place, path) = (section.name_place_of("limits"), section.path_of("limits"));
        // A limit without a name has nothing to merge with: these take its place.
        let mut list = if of_policy.named { of_policy.list.clone() } else { Vec::new() };
        let (mut seen, mut dropped): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
        for change in changes(node, place, &path, errors) {
            let Change { name, place, path, node, .. } = &change;
            if seen.contains(name) {
                let message = "appears twice; write each limit once";
                errors.push(ConfigError::at(*place, path, message));
                continue;
            }
            seen.push(name);
            let at = list.iter().position(|read| read.limit.name == *name);
            let is_dropped = matches!(&node.content, Content::Text(text) if text == NONE);
            if at.is_none() && (is_dropped || of_policy.named) {
                // A limit of the policy that is wrong has an error of its own.
                if of_policy.complete {
                    errors.push(ConfigError::at(*place, path, unknown(name, &list)));
                }
            } else if is_dropped {
                at.map(|at| list.remove(at));
                dropped.push((*name).to_owned());
            } else {
                let kind = at.and_then(|at| list.get(at)).map_or(DEFAULT_ALGORITHM, |it| it.kind);
                let limit = self.changed(&change, kind, errors);
                match (limit, at.and_then(|at| list.get_mut(at))) {
                    (Some(limit), Some(of_policy)) => *of_policy = limit,
                    (Some(limit), None) => list.push(limit),
                    (None, _) => {}
                }
            }
        }
        if list.is_empty() && errors.len() == before && of_policy.complete {
            let message = "drops every limit; keep one, or raise it";
            errors.push(ConfigError::at(place, path, message));
        }
        let complete = errors.len() == before && of_policy.complete;
        let dropped = of_policy.named.then_some(dropped);
        complete.then_some(ReadLimits { list, named: true, complete, dropped })
    }

    /// The limit of a change.
    fn changed(&self, change: &Change<'_>, kind: Kind, errors: &mut Errors) -> Option<ReadLimit> {
        let Change { name, path, node, is_item, .. } = change;
        let Content::Text(text) = &node.content else {
            let mut section = Section::of(node, path, errors)?;
            if *is_item {
                section.node("name");
            }
            let limit = self.limit(&mut section, Some(name), kind, errors);
            section.finish(errors);
            return limit;
        };
        let built = rate(text).and_then(|quota| {
            let rule = kind.build(quota, None).map_err(|error| error.message().to_owned())?;
            self.named(Some(name), rule).map_err(|error| error.message().to_owned())
        });
        let report = |message: String| {
            let message = format!("{message}, the fields of the limit, or `{NONE}`");
            errors.push(ConfigError::at(node.place, path, message));
        };
        let limit = built.map_err(report).ok()?;
        Some(ReadLimit { kind, limit })
    }
}

/// The limits that an override names: a section by name, or a list as in a policy.
fn changes<'n>(
    node: &'n Node,
    place: Location,
    path: &str,
    errors: &mut Errors,
) -> Vec<Change<'n>> {
    match &node.content {
        Content::Map(entries) if (1..=LIMITS_MAX).contains(&entries.len()) => {
            let change = |entry: &'n Entry| Change {
                name: &entry.name,
                place: entry.place,
                path: format!("{path}.{}", shorten(&entry.name)),
                node: &entry.value,
                is_item: false,
            };
            entries.iter().map(change).collect()
        }
        Content::List(items) if (1..=LIMITS_MAX).contains(&items.len()) => {
            let mut changes = Vec::new();
            for (index, node) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                let Some(mut section) = Section::of(node, &path, errors) else { continue };
                if let Some(name) = required_name(&mut section, errors) {
                    let place = section.place_of("name");
                    changes.push(Change { name, place, path, node, is_item: true });
                }
            }
            changes
        }
        _ => {
            let message = format!(
                "is {}; write 1 to {LIMITS_MAX} limits by name, such as `second: 100/second` or \
                 `second: {NONE}`",
                node.size()
            );
            errors.push(ConfigError::at(place, path, message));
            Vec::new()
        }
    }
}

fn unknown(name: &str, list: &[ReadLimit]) -> String {
    let all = list.iter().map(|read| read.limit.name.as_str());
    match nearest(name, all) {
        Some(near) => format!("is not a limit of the policy; did you mean {near:?}?"),
        None if list.is_empty() => {
            "is not a limit of the policy, which has one without a name".to_owned()
        }
        None => format!("is not a limit of the policy; accepted: {}", names(list)),
    }
}

fn names(list: &[ReadLimit]) -> String {
    list.iter().map(|read| read.limit.name.as_str()).collect::<Vec<_>>().join(", ")
}

//! The names of keys on the server, and with them their slots in a cluster.
//!
//! The name is `prefix:policy:{subject}`: the braces make the subject decide the slot, so all
//! policies of one subject live together and can be charged in one atomic script. With
//! [`KeyLayout::ByPrefix`] the prefix decides instead: everything of one prefix lives in one slot,
//! which makes any combination atomic and leaves all of its load to one node.

use tollgate_core::Key;

/// What decides the slot of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeyLayout {
    /// `prefix:policy:{subject}`: keys spread over the cluster, those of one subject stay together.
    #[default]
    BySubject,
    /// `{prefix}:policy:subject`: all keys of a prefix share a slot.
    ByPrefix,
}

impl KeyLayout {
    /// The name of a key on the server.
    pub(crate) fn name(self, key: &Key<'_>) -> String {
        self.rename(key.to_text())
    }

    /// The name on the server of a key, or of a record beside one, whose name is by subject.
    pub(crate) fn rename(self, text: String) -> String {
        match self {
            Self::BySubject => text,
            Self::ByPrefix => match text.split_once(':') {
                // Subjects hold no braces of their own: they are encoded.
                Some((prefix, rest)) => format!("{{{prefix}}}:{}", rest.replace(['{', '}'], "")),
                None => text,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::slot_of;
    use tollgate_core::{Limit, Quota, algorithm::Gcra};

    fn limit(policy: &str) -> Limit {
        Limit::new(policy, Gcra::new(Quota::per_second(1)).unwrap()).unwrap()
    }

    #[test]
    fn policies_of_one_subject_share_a_slot() {
        let name = |policy: &str| KeyLayout::BySubject.name(&limit(policy).key("user:1"));
        assert_eq!(name("a"), "tollgate:a:{user%3A1}");
        assert_eq!(slot_of(name("a").as_bytes()), slot_of(name("b").as_bytes()));
    }

    #[test]
    fn by_prefix_all_keys_share_a_slot_and_none_collide() {
        let name =
            |policy: &str, subject: &str| KeyLayout::ByPrefix.name(&limit(policy).key(subject));
        assert_eq!(name("a", "user:1"), "{tollgate}:a:user%3A1");
        assert_eq!(slot_of(name("a", "x").as_bytes()), slot_of(name("b", "y").as_bytes()));
        assert_ne!(name("a", "{x}"), name("a", "x"));
        assert_ne!(name("a", ""), name("a", "%"));
    }
}

//! What `register!` makes of the list of built-in algorithms in `mod.rs`.
//!
//! Programs that treat algorithms differently match on [`Kind`], which is exhaustive on purpose: a
//! new algorithm does not compile until each of them has an arm for it.

use super::Kind;
use crate::rule::Rule;
use crate::state::QuotaId;

macro_rules! register {
    ($($(#[$doc:meta])* $module:ident::$kind:ident, $tag:literal, $limit_in_family:literal;)*) => {
        $(pub use $module::$kind;)*

        /// The built-in algorithms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: [Self; [$($tag),*].len()] = [$(Self::$kind),*];

            /// The name in configurations, metrics and golden vectors.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($module),)* }
            }

            /// The number that identifies the algorithm in stored states. It never changes.
            #[must_use]
            pub const fn tag(self) -> u64 {
                match self { $(Self::$kind => $tag,)* }
            }

            /// The algorithm of a stored state, if it is a built-in one.
            const fn of_tag(tag: u64) -> Option<Self> {
                match tag { $($tag => Some(Self::$kind),)* _ => None }
            }

            /// Its fields in a configuration.
            #[must_use]
            pub const fn fields(self) -> QuotaFields {
                match self { $(Self::$kind => $kind::FIELDS,)* }
            }

            /// The rule of a rate and of the optional field.
            ///
            /// # Errors
            /// `config_invalid` naming the field that is out of range.
            pub fn build(self, rate: Quota, option: Option<u64>) -> Result<Rule> {
                Ok(match self { $(Self::$kind => Rule::new($kind::from_fields(rate, option)?),)* })
            }

            /// Whether only the whole quota explains the words. Windows count units, whatever their
            /// limit is: the counts stay true under another limit.
            const fn limit_in_family(self) -> bool {
                match self { $(Self::$kind => $limit_in_family,)* }
            }

            fn rebuilt(self, quota_id: QuotaId) -> Option<Rule> {
                match self { $(Self::$kind => $kind::from_quota_id(quota_id).map(Rule::new),)* }
            }
        }
    };
}

pub(super) use register;

impl Kind {
    /// The algorithm of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Rebuilds a built-in algorithm from the quota stored with a state.
#[must_use]
pub fn built_in(quota_id: QuotaId) -> Option<Rule> {
    Kind::of_tag(quota_id.tag())?.rebuilt(quota_id)
}

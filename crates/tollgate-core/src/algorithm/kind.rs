//! The registration of the built-in algorithms: one line each.
//!
//! Programs that treat algorithms differently (configuration, reference model, golden vectors)
//! match on [`Kind`], which is exhaustive on purpose: a new algorithm does not compile until each
//! of them handles it.

use super::{FixedWindow, Gcra, LeakyBucket, SlidingLog, SlidingWindow, TokenBucket};
use crate::rule::Rule;
use crate::state::QuotaId;

macro_rules! register {
    ($($(#[$doc:meta])* $kind:ident, $name:literal, $tag:literal, $limit_in_family:literal;)*) => {
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
                match self { $(Self::$kind => $name,)* }
            }

            /// The number that identifies the algorithm in stored states. It never changes.
            #[must_use]
            pub const fn tag(self) -> u64 {
                match self { $(Self::$kind => $tag,)* }
            }

            /// The algorithm of a stored state, if it is a built-in one.
            #[must_use]
            pub(super) const fn of_tag(tag: u64) -> Option<Self> {
                match tag { $($tag => Some(Self::$kind),)* _ => None }
            }

            /// Whether only the whole quota explains the words. Windows count units, whatever their
            /// limit is: the counts stay true under another limit.
            pub(super) const fn limit_in_family(self) -> bool {
                match self { $(Self::$kind => $limit_in_family,)* }
            }

            fn rebuilt(self, quota_id: QuotaId) -> Option<Rule> {
                match self { $(Self::$kind => $kind::from_quota_id(quota_id).map(Rule::new),)* }
            }
        }
    };
}

register! {
    /// The generic cell rate algorithm.
    Gcra, "gcra", 1, true;
    /// A bucket of tokens.
    TokenBucket, "token_bucket", 2, true;
    /// A shaper.
    LeakyBucket, "leaky_bucket", 3, true;
    /// A counter per window.
    FixedWindow, "fixed_window", 4, false;
    /// An estimate over buckets.
    SlidingWindow, "sliding_window", 5, false;
    /// The exact log.
    SlidingLog, "sliding_log", 6, false;
}

/// Rebuilds a built-in algorithm from the quota stored with a state.
#[must_use]
pub fn built_in(quota_id: QuotaId) -> Option<Rule> {
    Kind::of_tag(quota_id.tag())?.rebuilt(quota_id)
}

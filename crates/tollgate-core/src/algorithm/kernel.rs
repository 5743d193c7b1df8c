//! The scripted twin of an algorithm: its step in Lua, beside its step in Rust.
//!
//! A store that can run scripts next to its data (Redis) decides there, and only says what the state
//! was before; every number of the decision is still derived in Rust. So a twin only has to agree on
//! two things, whether a cost is granted and what the next state is, and the differential test of
//! the Redis store holds it to both, byte for byte.
//!
//! # What a twin looks like
//! A piece of Lua that declares two counts and four functions:
//!
//! - `RULE`, `COST`: how many numbers describe the quota and a cost ([`Kernel::rule`],
//!   [`Algorithm::kernel_cost`](super::Algorithm::kernel_cost)).
//! - `read(key, n, A, r)`: two values `a, b` that stand for the state of the key at the instant `n`;
//!   nothing when the state is of another quota or cannot be read. `A[r]` and `A[r + 1]` are the texts of
//!   the quota's family and shape, its numbers follow.
//! - `step(a, b, n, A, r, j)`: whether the cost whose numbers begin at `A[j]` is granted, and `a, b` after.
//! - `words(out, o, a, b)`: appends what `read` found to `out` after position `o`, the count of words
//!   first; the new last position. Called after the steps.
//! - `write(key, a, b, n, A, r, grace)`: keeps the state until it is fresh and `grace` ms longer; the
//!   error reply if it was refused.
//!
//! All numbers are integers below 2^53, which Lua's doubles hold exactly. They leave Lua only through
//! `string.format` or as arguments of a command: `tostring`, `..` and `cjson.encode` keep 14 digits.
//!
//! # A user's own
//! A [`Custom`](super::Custom) algorithm brings one function instead; [`WORDS`] makes a twin of it.

/// A scripted twin with the numbers of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// The twin.
    pub source: Source,
    /// The numbers of the quota, as the twin expects them.
    pub rule: Vec<u64>,
}

/// Where the Lua of a twin comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A whole twin.
    Whole(&'static str),
    /// A user's function `function(words, now, cost, parameters)`; [`WORDS`] goes in front.
    Step(&'static str),
}

impl Kernel {
    pub(crate) const fn built_in(source: &'static str, rule: Vec<u64>) -> Self {
        Self { source: Source::Whole(source), rule }
    }
}

impl Source {
    /// Tells twins apart without reading them: where the text lies.
    #[must_use]
    pub fn address(self) -> usize {
        let (Self::Whole(text) | Self::Step(text)) = self;
        text.as_ptr().addr()
    }

    /// The whole twin.
    #[must_use]
    pub fn text(self) -> String {
        match self {
            Self::Whole(text) => text.to_owned(),
            Self::Step(text) => format!("local own_step = {}\n{WORDS}", text.trim()),
        }
    }
}

/// Runs a user's function over plain words.
pub const WORDS: &str = include_str!("words.lua");

/// Numbers that Lua holds exactly are below this.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

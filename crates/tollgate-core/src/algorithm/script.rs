//! Steps that a store runs as a script next to its data.
//!
//! An algorithm does not hold the script: it names its step, and gives the numbers of the quota and
//! of a cost. A store that runs scripts (Redis) has the text of each step, and reports only what
//! the state was before; every number of the decision is still derived in Rust. So a script has to
//! agree with the algorithm on two things: whether a cost is granted, and what the next state is.
//!
//! All numbers are integers below 2^53, which doubles hold exactly. Products are made here, in 128
//! bits: a script adds and compares.

/// The step of an algorithm as a script.
///
/// Stores match on all variants: a new one does not compile until each store has its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptedStep {
    /// One instant: gcra, token_bucket and leaky_bucket. Numbers of the quota: l. Of a cost: T·q,
    /// then T·(B − q), each as a whole part and a fraction of l; the second whole part is −1 for a
    /// cost above B.
    Schedule,
    /// A count per window. Numbers of the quota: W, the anchor (0 epoch, 1 first hit), L. Of a
    /// cost: its units.
    FixedWindow,
    /// Counts per bucket. Numbers of the quota: w, S, L, and the base of the digits in which a
    /// bucket is weighed. Of a cost: its units.
    SlidingWindow,
    /// A log of charges. Numbers of the quota: W, L. Of a cost: its units.
    SlidingLog,
    /// A function that a user brings (see [`Custom::script`](super::Custom::script)). Numbers of
    /// the quota: the three parameters. Of a cost: its units.
    Custom(&'static str),
}

/// Numbers that a script holds exactly are below this.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

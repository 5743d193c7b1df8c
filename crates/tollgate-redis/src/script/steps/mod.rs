//! The steps of the algorithms in Lua.
//!
//! A script that charges keys decides next to the data, and reports only what the state was before.
//! The differential test holds each step to its algorithm in Rust, byte for byte.
//!
//! # What a step looks like
//! A piece of Lua that declares two counts and four functions:
//!
//! - `RULE`, `COST`: how many numbers describe the quota and a cost
//!   ([`ScriptedStep`] lists them).
//! - `read(key, n, A, r)`: two values `a, b` that stand for the state of the key at the instant
//!   `n`; nothing when the state is of another quota or cannot be read. `A[r]` and `A[r + 1]` are
//!   the texts of the quota's family and of its id, its numbers follow.
//! - `step(a, b, n, A, r, j)`: whether the cost whose numbers begin at `A[j]` is granted, and `a,
//!   b` after.
//! - `words(out, o, a, b)`: appends what `read` found to `out` after position `o`, the count of
//!   words first; the new last position. Called after the steps.
//! - `write(key, a, b, n, A, r, grace)`: stores the state until it means the same as none, and
//!   `grace` ms longer; the error reply if it was refused.
//!
//! Numbers leave Lua only through `string.format` or as arguments of a command: `tostring`, `..`
//! and `cjson.encode` keep 14 digits.

use tollgate_core::algorithm::ScriptedStep;

/// The text of a step. A step without a text does not compile.
pub(super) fn text_of(step: ScriptedStep) -> String {
    match step {
        ScriptedStep::Schedule => include_str!("schedule.lua").to_owned(),
        ScriptedStep::FixedWindow => include_str!("fixed_window.lua").to_owned(),
        ScriptedStep::SlidingWindow => include_str!("sliding_window.lua").to_owned(),
        ScriptedStep::SlidingLog => include_str!("sliding_log.lua").to_owned(),
        // A user's function over plain words; the rest of the step is the same for all of them.
        ScriptedStep::Custom(function) => {
            format!("local own_step = {}\n{}", function.trim(), include_str!("custom.lua"))
        }
    }
}

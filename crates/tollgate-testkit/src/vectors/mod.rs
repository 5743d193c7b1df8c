//! Golden vectors: decisions that every implementation, in any language, must reproduce.
//!
//! The files in `vectors/` are made by the reference model ([`generate`]) and committed, so that a
//! port needs no Rust to check itself; `vectors/README.md` explains the format. Here they are
//! parsed ([`golden_vectors`]) and replayed against a store ([`replay_vectors`]).

mod generate;
mod json;
mod replay;

use tollgate_core::{Cost, Decision, Micros};

use crate::model::{Kind, ModelQuota};

pub use generate::generate;
pub use replay::replay_vectors;

/// The vectors of one algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorFile {
    /// The algorithm that every group starts with.
    pub algorithm: Kind,
    /// Independent keys.
    pub groups: Vec<Group>,
}

/// What happens to one fresh key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Says what the group is about.
    pub name: String,
    /// The quota at first.
    pub quota: ModelQuota,
    /// In order.
    pub decisions: Vec<Vector>,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The quota from here on, if it changes.
    pub change: Option<ModelQuota>,
    /// What is asked.
    pub op: Op,
    /// The clock's reading.
    pub now_us: Micros,
    /// Units asked for.
    pub cost: Cost,
    /// The answer.
    pub decision: Decision,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Charge if allowed.
    Check,
    /// Only tell.
    Peek,
}

impl VectorFile {
    /// The name of the file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.json", self.algorithm.name())
    }

    /// The text of the file.
    #[must_use]
    pub fn to_json(&self) -> String {
        json::write(self)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// Says which part is missing or wrong.
    pub fn from_json(text: &str) -> Result<Self, String> {
        json::read(text)
    }
}

/// The committed files, as they are.
const COMMITTED: [&str; 6] = [
    include_str!("../../vectors/gcra.json"),
    include_str!("../../vectors/token_bucket.json"),
    include_str!("../../vectors/leaky_bucket.json"),
    include_str!("../../vectors/fixed_window.json"),
    include_str!("../../vectors/sliding_window.json"),
    include_str!("../../vectors/sliding_log.json"),
];

/// The committed golden vectors, parsed: one file per algorithm.
#[must_use]
#[expect(
    clippy::missing_panics_doc,
    clippy::expect_used,
    reason = "the files are part of this crate, and a test reads them all"
)]
pub fn golden_vectors() -> Vec<VectorFile> {
    COMMITTED
        .iter()
        .map(|text| VectorFile::from_json(text).expect("the committed vectors are well-formed"))
        .collect()
}

/// The committed files as text, in the order of [`Kind::ALL`].
#[must_use]
pub const fn committed() -> [&'static str; 6] {
    COMMITTED
}

//! Golden vectors: decisions that every implementation, in any language, must reproduce.
//!
//! The reference model makes the files in `vectors/` ([`generate`]). They are committed, so that a
//! port needs no Rust to check itself; `vectors/README.md` explains the format. This module parses
//! them ([`golden_vectors`]) and replays them against a store ([`replay_vectors`]).
//!
//! ```
//! use tollgate_testkit::conformance::{Options, Suite};
//! use tollgate_testkit::vectors::replay_vectors;
//! use tollgate_testkit::{ReferenceStore, runtime::block_on};
//!
//! let store = ReferenceStore::new(); // your store here
//! let suite = Suite::new(&store, Options::default());
//! assert!(block_on(replay_vectors(&suite)) > 100);
//! ```

mod committed;
mod generate;
mod json;
mod replay;

use tollgate_core::algorithm::OptionKind;
use tollgate_core::{Cost, Decision, Micros, Receipt, Settlement};

use crate::model::{Kind, ModelQuota};

use committed::COMMITTED;

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

/// The requests on one fresh key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The purpose of the group.
    pub name: String,
    /// The quota at first.
    pub quota: ModelQuota,
    /// In order.
    pub decisions: Vec<Vector>,
}

/// One request and its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The quota from here on, if it changes.
    pub change: Option<ModelQuota>,
    /// The request.
    pub op: Op,
    /// The clock's reading.
    pub now_us: Micros,
    /// The units of the request; of a range the fewest.
    pub cost: Cost,
    /// The most units, if the request is for a range.
    pub max: Option<Cost>,
    /// What is settled, and what became of it.
    pub settled: Option<SettledVector>,
    /// The decision; after settling how the key stands.
    pub decision: Decision,
}

/// The final cost of an earlier charge, which took the cost of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettledVector {
    /// The end of the charge; absent for the newest units of the key.
    pub until_us: Option<Micros>,
    /// The final cost.
    pub to: u64,
    /// Units that the key may owe beyond its ceiling.
    pub max_debt: u64,
    /// What was given back, charged and dropped.
    pub settlement: Settlement,
}

impl SettledVector {
    /// Which charge it is.
    #[must_use]
    pub fn receipt(&self) -> Receipt {
        self.until_us.map_or(Receipt::Newest, Receipt::Until)
    }
}

impl Vector {
    /// A request without options, to be decided.
    pub(crate) fn new(op: Op, now_us: Micros, cost: Cost) -> Self {
        let decision = Decision::allowed(0, 0, 0);
        Self { change: None, op, now_us, cost, max: None, settled: None, decision }
    }
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Charge if allowed.
    Check,
    /// Decide without a charge.
    Peek,
    /// Set the final cost of an earlier charge.
    Settle,
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
    /// When a part is missing or wrong; the message names it.
    pub fn from_json(text: &str) -> Result<Self, String> {
        json::read(text)
    }
}

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
pub const fn committed() -> &'static [&'static str] {
    &COMMITTED
}

/// The files with the numbers of their quotas, for `vectors/README.md`, in Markdown.
#[must_use]
pub fn files_table() -> String {
    let mut table = String::from("| file | fields of a quota | of which |\n|---|---|---|\n");
    for kind in Kind::ALL {
        let fields = json::field_names(&ModelQuota::new(kind, 1, 1, 1));
        let option = kind.fields().option.map(|option| match option.kind {
            OptionKind::Whole(_) => {
                // Here it is never absent.
                let meaning = option.meaning.split(';').next().unwrap_or_default();
                format!("`{}`: {meaning}", option.name)
            }
            OptionKind::Word(words) => {
                format!("`{}`: `{}`", option.name, words.join("` or `"))
            }
        });
        let (name, fields) = (kind.name(), fields.join("`, `"));
        table.push_str(&format!(
            "| `{name}.json` | `{fields}` | {} |\n",
            option.unwrap_or_default()
        ));
    }
    table
}

/// The text of the source file that includes the committed files.
#[must_use]
pub fn committed_source() -> String {
    let mut text =
        String::from("//! Written by `cargo xtask generate`: the committed golden vectors.\n\n");
    text.push_str("/// The committed files, in the order of the algorithms.\n");
    text.push_str(&format!("pub(super) const COMMITTED: [&str; {}] = [\n", Kind::ALL.len()));
    for kind in Kind::ALL {
        let name = kind.name();
        text.push_str(&format!("    include_str!(\"../../vectors/{name}.json\"),\n"));
    }
    text.push_str("];\n");
    text
}

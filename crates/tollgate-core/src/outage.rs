//! A function that chooses the outage mode of a limit for each decision; called by
//! `limiter/failure`.

use core::fmt;
use std::sync::Arc;

use crate::decision::OutageMode;
use crate::error::Code;
use crate::key::Name;

/// A decision that the store could not make.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outage<'a> {
    /// The limit of the decision.
    pub policy: &'a Name,
    /// Why the store could not answer.
    pub code: Code,
    /// The mode of the limit unless another is chosen.
    pub mode: OutageMode,
}

/// Chooses the mode of a limit when its store cannot answer. Called for every such decision.
#[derive(Clone)]
pub(crate) struct Chooser(Arc<Choose>);

type Choose = dyn Fn(&Outage<'_>) -> OutageMode + Send + Sync;

impl Chooser {
    pub(crate) fn new(choose: impl Fn(&Outage<'_>) -> OutageMode + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    pub(crate) fn choose(&self, outage: &Outage<'_>) -> OutageMode {
        (self.0)(outage)
    }
}

impl fmt::Debug for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chooser")
    }
}

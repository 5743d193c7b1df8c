//! Whether the store answers, asked once for everybody who wants to know at the same time.

use tokio::sync::Mutex;
use tollgate::Micros;

use super::{Failure, Result};

/// How long an answer is good for, in microseconds: anybody may ask, and as often as they like.
const GOOD_FOR: Micros = 1_000_000;

/// The last answer, and when it was asked for.
#[derive(Debug, Default)]
pub(super) struct Readiness(Mutex<Option<(Micros, Result<()>)>>);

impl Readiness {
    /// The last answer if it is good, or else that of `probe`, which others wait for too.
    pub(super) async fn get(
        &self,
        now: Micros,
        probe: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = &*last
            && now.checked_sub(*at).is_some_and(|age| age < GOOD_FOR)
        {
            return again(answer);
        }
        let answer = probe.await;
        let told = again(&answer);
        *last = Some((now, answer));
        told
    }
}

fn again(answer: &Result<()>) -> Result<()> {
    answer.as_ref().copied().map_err(Failure::clone)
}

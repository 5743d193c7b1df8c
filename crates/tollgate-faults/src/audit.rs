//! What the store has charged, compared with what callers were answered.
//!
//! Every request id is sent again once the store answers: an answer that is a replay shows that the
//! id was charged before. Then all ids are charged, so a key with more units than ids was charged
//! twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate_core::OutageMode;

use crate::Result;
use crate::fleet::{Fleet, Kind, LIMIT, SERVERS};
use crate::sample::Answer;
use crate::traffic::{Call, KEYS, name_of_id, name_of_key};

/// Requests of the audit at once.
const AT_ONCE: usize = 16;
/// How often an id is sent until the store decides.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(50);

/// Units, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Admitted by the store beyond the limit of a key.
    pub over_admitted: u64,
    /// Admitted by the store, which has no record of it afterwards.
    pub forgotten: u64,
    /// Charged more than once under one request id.
    pub doubled: u64,
    /// Charged for a caller that did not get the decision of the store.
    pub unanswered: u64,
    /// Charged for a caller that got `queue_full` or `conflict_exhausted`, and nothing else.
    pub behind_refusals: u64,
    /// The callers that got these.
    pub refusals: u64,
}

/// One request id.
#[derive(Debug, Default)]
struct Asked {
    key: usize,
    answered: bool,
    /// Whether every answer was a refusal that means that nothing was charged.
    refused: bool,
}

/// Compares the charges of one mode with these calls.
///
/// # Errors
/// When the store does not decide.
pub(crate) async fn audit(fleet: &Arc<Fleet>, mode: OutageMode, calls: &[Call]) -> Result<Units> {
    let mut units = Units::default();
    let calls = || calls.iter().filter(|call| call.mode == mode);
    let mut admitted = BTreeMap::<usize, u64>::new();
    for call in calls().filter(|call| call.id.is_none()) {
        let is_admitted = matches!(call.sample.answer, Answer::Store { allowed: true, .. });
        *admitted.entry(call.sample.subject).or_default() += u64::from(is_admitted);
    }
    for (key, admitted) in admitted {
        let charged = fleet.charged(Kind::Counted, mode, &name_of_key(key)).await?;
        units.over_admitted += admitted.saturating_sub(LIMIT);
        units.forgotten += admitted.saturating_sub(charged);
        units.unanswered += charged.saturating_sub(admitted);
    }
    let mut ids = BTreeMap::<u64, Asked>::new();
    for (call, id) in calls().filter_map(|call| call.id.map(|id| (call, id))) {
        let (key, answer) = (call.sample.subject, &call.sample.answer);
        let asked = ids.entry(id).or_insert(Asked { key, answered: false, refused: true });
        asked.answered |= answer.is_by_store();
        asked.refused &= answer.is_contention();
    }
    let mut of_keys = BTreeMap::<usize, u64>::new();
    for (id, was_charged) in replay(fleet, mode, &ids).await? {
        let Some(asked) = ids.get(&id) else { continue };
        *of_keys.entry(asked.key).or_default() += 1;
        let Some(was_charged) = was_charged else { continue };
        units.forgotten += u64::from(asked.answered && !was_charged);
        units.unanswered += u64::from(!asked.answered && was_charged);
        units.behind_refusals += u64::from(asked.refused && was_charged);
        units.refusals += u64::from(asked.refused);
    }
    for key in 0..usize::try_from(KEYS)? {
        let charged = fleet.charged(Kind::Identified, mode, &name_of_key(key)).await?;
        units.doubled += charged.saturating_sub(of_keys.get(&key).copied().unwrap_or_default());
    }
    Ok(units)
}

/// Sends every id again; whether it had been charged, if that is known.
async fn replay(
    fleet: &Arc<Fleet>,
    mode: OutageMode,
    ids: &BTreeMap<u64, Asked>,
) -> Result<Vec<(u64, Option<bool>)>> {
    let (mut calls, mut charged) = (JoinSet::new(), Vec::new());
    for (server, (id, asked)) in (0..SERVERS).cycle().zip(ids) {
        let (fleet, id, key) = (Arc::clone(fleet), *id, asked.key);
        calls.spawn(async move { (id, again(&fleet, server, mode, (key, id)).await) });
        if calls.len() >= AT_ONCE {
            charged.extend(calls.join_next().await.transpose()?);
        }
    }
    charged.extend(calls.join_all().await);
    charged.into_iter().map(|(id, replayed)| Ok((id, replayed?))).collect()
}

/// Sends an id until the store decides. After an attempt without a decision it is not known which
/// call the answer repeats.
async fn again(
    fleet: &Fleet,
    server: usize,
    mode: OutageMode,
    (key, id): (usize, u64),
) -> Result<Option<bool>> {
    let (policy, key, id) = (Kind::Identified.policy(mode), name_of_key(key), name_of_id(id));
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        match fleet.acquire(server, &policy, &key, Some(&id)).await {
            Answer::Store { allowed: true, replayed } => {
                return Ok((attempt == 0 || !replayed).then_some(replayed));
            }
            other => last = Some(other),
        }
        // A breaker that has just opened takes a moment to close.
        sleep(PAUSE).await;
    }
    Err(format!("the audit got no decision for {id}: {last:?}").into())
}

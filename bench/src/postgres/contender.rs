//! What is compared: the store in its modes, and the rivals.

use std::time::Duration;

use tollgate::algorithm::TokenBucket;
use tollgate::postgres::{Config, Durability, Postgres, Retention};
use tollgate::{Admission, Error, Limit, Limiter, Quota, RequestId};

use super::options::Options;
use super::psql;
use super::rivals::Rival;
use crate::Result;

/// The kinds, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tollgate,
    TollgateOnce,
    TollgateAudit,
    TollgateRelaxed,
    TollgateOnceRelaxed,
    Serializable,
    Advisory,
    Upsert,
    Commit,
}

const ALL: [(&str, Kind, &str); 9] = [
    ("tollgate", Kind::Tollgate, "Tollgate"),
    ("once", Kind::TollgateOnce, "Tollgate, request ids"),
    ("audit", Kind::TollgateAudit, "Tollgate, request ids and audit"),
    ("relaxed", Kind::TollgateRelaxed, "Tollgate, relaxed durability"),
    ("once-relaxed", Kind::TollgateOnceRelaxed, "Tollgate, request ids, relaxed durability"),
    ("serializable", Kind::Serializable, "(a) SERIALIZABLE, FOR UPDATE, request ids"),
    ("advisory", Kind::Advisory, "(b) advisory lock, five round trips"),
    ("upsert", Kind::Upsert, "(c) upsert of a counter, one statement"),
    ("commit", Kind::Commit, "(c) bare commits, a row per connection"),
];

impl Kind {
    pub(crate) fn title(self) -> &'static str {
        ALL.iter().find(|(_, kind, _)| *kind == self).map_or("", |(_, _, title)| title)
    }
}

/// The selected ones.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Kind>> {
    if let Some(odd) = names.iter().find(|name| !ALL.iter().any(|(known, ..)| known == name)) {
        return Err(format!("unknown contender `{odd}`"));
    }
    let is_chosen = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    Ok(ALL.iter().filter(|(name, ..)| is_chosen(name)).map(|(_, kind, _)| *kind).collect())
}

/// One of them, with tables of its own.
pub(crate) enum Contender {
    Tollgate { limiter: Box<Limiter<Postgres>>, limit: Box<Limit>, ids: bool },
    Rival(Rival),
}

impl Contender {
    pub(crate) async fn open(kind: Kind, options: &Options) -> Result<Self> {
        psql(
            options.url(),
            "DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench; CHECKPOINT",
        )?;
        let config = config(options)?;
        let (config, ids) = match kind {
            Kind::Tollgate => (config, false),
            Kind::TollgateOnce => (config, true),
            Kind::TollgateAudit => (config.audit(Retention::ForEver), true),
            Kind::TollgateRelaxed => (config.durability(Durability::Relaxed), false),
            Kind::TollgateOnceRelaxed => (config.durability(Durability::Relaxed), true),
            rival => return Ok(Self::Rival(Rival::open(rival, options).await?)),
        };
        let store = Postgres::connect(config).await.map_err(|error| error.to_string())?;
        let limiter = Limiter::builder(store).deadline(Duration::from_secs(10)).build();
        let quota = TokenBucket::new(1 << 40, Quota::per_second(1_000));
        let limit = quota.and_then(|quota| Limit::new("bench", quota));
        let limit = limit.map_err(|error| error.to_string())?;
        Ok(Self::Tollgate { limiter: Box::new(limiter), limit: Box::new(limit), ids })
    }

    /// One decision: how often it had to be tried again, or `None` if it failed.
    pub(crate) async fn decide(&self, key: &str, id: u128) -> Option<u32> {
        match self {
            Self::Tollgate { limiter, limit, ids } => {
                let charges = [limit.charge(key)];
                let id = format!("{id:032x}");
                let admission = match (ids, RequestId::new(&id)) {
                    (true, Ok(once)) => Admission::of(&charges).request_id(once),
                    _ => Admission::of(&charges),
                };
                let decision = limiter.check(&admission).await.ok()?;
                (decision.is_allowed() && decision.degraded.is_none()).then_some(0)
            }
            Self::Rival(rival) => rival.decide(key, id).await,
        }
    }

    pub(crate) async fn close(&self) {
        if let Self::Tollgate { limiter, .. } = self {
            limiter.close().await;
        }
    }
}

/// The settings of the store.
pub(crate) fn config(options: &Options) -> Result<Config> {
    let config: Config = options.url().parse().map_err(|error: Error| error.to_string())?;
    let timeout = Duration::from_secs(10);
    let config = config.connect_timeout(timeout).operation_timeout(timeout);
    Ok(config.tables("bench", "limits"))
}

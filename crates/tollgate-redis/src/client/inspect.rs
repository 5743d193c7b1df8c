//! Settings of a server that matter for counters.
//!
//! They are read once, at the start of a program or by an operator. A user without the right to
//! read them gets a warning instead of an error.

use tollgate_core::{Code, Error, Result};

use super::exclusive::{ExclusiveConnection, Words};
use crate::transport::Reply;

/// The oldest version that is tested.
const OLDEST: u32 = 7;

/// What servers report about themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// One entry for each server that holds keys.
    pub servers: Vec<Inspected>,
    /// Whether they were inspected as a cluster.
    pub is_cluster: bool,
}

/// What one server reports about itself. What is absent it did not report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspected {
    /// Where it is, as `host:port`; absent when sentinels find it.
    pub address: Option<String>,
    /// What it is: `redis`, `valkey`.
    pub product: Option<String>,
    /// Its version, or the version of Redis that it is compatible with.
    pub version: Option<String>,
    /// `standalone`, `cluster` or `sentinel`.
    pub mode: Option<String>,
    /// `master` or `slave`.
    pub role: Option<String>,
    /// The bound of its memory; 0 is none.
    pub maxmemory_bytes: Option<u64>,
    /// What it does at that bound.
    pub maxmemory_policy: Option<String>,
    /// Keys that it has evicted since it started.
    pub evicted_keys: Option<u64>,
}

impl Inspection {
    /// What an operator should change; empty if all is well.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let nodes = self.servers.iter().filter(|server| {
            // It would get calls for keys of other nodes.
            !self.is_cluster && server.mode.as_deref() == Some("cluster")
        });
        let nodes =
            nodes.map(|server| server.warning("is a node of a cluster; use redis-cluster://"));
        let own = self.servers.iter().flat_map(Inspected::warnings);
        nodes.chain(own).collect()
    }
}

impl Inspected {
    /// What an operator should change about this server.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let (memory, evicted) = (self.memory_warning(), self.eviction_warning());
        let warnings = [self.version_warning(), self.role_warning(), memory, evicted];
        warnings.into_iter().flatten().map(|text| self.warning(&text)).collect()
    }

    fn warning(&self, text: &str) -> String {
        let address = self.address.as_ref().map(|address| format!(" at {address}"));
        format!("Redis{}: {text}", address.unwrap_or_default())
    }

    fn version_warning(&self) -> Option<String> {
        let version = self.version.as_deref()?;
        let major: u32 = version.split('.').next()?.parse().ok()?;
        (major < OLDEST)
            .then(|| format!("version {version} is not tested; use {OLDEST}.0 or later"))
    }

    fn role_warning(&self) -> Option<String> {
        let role = self.role.as_deref().filter(|role| *role != "master")?;
        Some(format!("its role is {role}: it refuses writes; name the master"))
    }

    /// Every counter has a time to live, so what evicts only such keys evicts counters too.
    fn memory_warning(&self) -> Option<String> {
        let advice = "use noeviction, or volatile-ttl, which takes those that matter least first";
        match (self.maxmemory_policy.as_deref(), self.maxmemory_bytes) {
            (Some("noeviction" | "volatile-ttl"), _) | (Some(_), Some(0)) => None,
            (Some(policy), _) => Some(format!(
                "maxmemory-policy is {policy}: it may evict counters and so forgive; {advice}"
            )),
            (None, _) => Some(format!(
                "this user may not see maxmemory-policy, which may evict counters; permit INFO, \
                 or {advice}"
            )),
        }
    }

    /// A cache on the same server that fills it takes counters with it.
    fn eviction_warning(&self) -> Option<String> {
        let keys = self.evicted_keys.filter(|keys| *keys > 0)?;
        Some(format!(
            "{keys} keys were evicted since it started, and counters may be among them: give it \
             more memory, or counters a server of their own"
        ))
    }

    /// Reads the settings of a server.
    ///
    /// # Errors
    /// When it does not answer. A missing right is no error.
    pub(super) async fn read(
        connection: &mut ExclusiveConnection,
        limit: core::time::Duration,
    ) -> Result<Self> {
        let queries: [Words<'_>; 4] = [
            &[b"INFO", b"server"],
            &[b"INFO", b"replication"],
            &[b"INFO", b"memory"],
            &[b"INFO", b"stats"],
        ];
        let replies = connection.exchange(&queries, limit).await?;
        let [server, replication, memory, stats] = replies.as_slice() else {
            return Err(Error::new(Code::StoreUnavailable, "Redis did not answer all queries"));
        };
        let number = |reply, name| field(reply, name).and_then(|text| text.parse().ok());
        Ok(Self {
            address: None,
            // Redis before version 8 does not report its name.
            product: field(server, "server_name")
                .or_else(|| field(server, "redis_version").map(|_| "redis".to_owned())),
            version: field(server, "redis_version"),
            mode: field(server, "redis_mode"),
            role: field(replication, "role"),
            maxmemory_bytes: number(memory, "maxmemory"),
            maxmemory_policy: field(memory, "maxmemory_policy"),
            evicted_keys: number(stats, "evicted_keys"),
        })
    }
}

/// A line `name:value` of an answer to `INFO`.
fn field(reply: &Reply, name: &str) -> Option<String> {
    let Reply::Text(text) = reply else { return None };
    let text = core::str::from_utf8(text).ok()?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(found, _)| *found == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(policy: Option<&str>, bytes: Option<u64>) -> Inspected {
        let maxmemory_policy = policy.map(str::to_owned);
        Inspected { maxmemory_policy, maxmemory_bytes: bytes, ..Inspected::default() }
    }

    #[test]
    fn only_what_may_evict_counters_is_warned_of() {
        for (policy, bytes) in [("noeviction", 1), ("volatile-ttl", 1), ("allkeys-lru", 0)] {
            assert!(inspected(Some(policy), Some(bytes)).warnings().is_empty(), "{policy}");
        }
        for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-lfu"] {
            for bytes in [None, Some(1)] {
                let warnings = inspected(Some(policy), bytes).warnings();
                assert!(warnings.len() == 1 && warnings[0].contains(policy), "{warnings:?}");
            }
        }
        assert_eq!(inspected(None, Some(0)).warnings().len(), 1);
    }

    #[test]
    fn what_was_evicted_already_is_warned_of() {
        let with = |evicted_keys| Inspected { evicted_keys, ..inspected(Some("noeviction"), None) };
        assert!(with(None).warnings().is_empty() && with(Some(0)).warnings().is_empty());
        assert!(with(Some(7)).warnings()[0].contains("7 keys were evicted"));
    }

    #[test]
    fn old_servers_and_replicas_are_warned_of() {
        let server = |version: &str, role: &str| Inspected {
            address: Some("a:1".to_owned()),
            version: Some(version.to_owned()),
            role: Some(role.to_owned()),
            ..inspected(Some("noeviction"), None)
        };
        assert!(server("7.0.15", "master").warnings().is_empty());
        assert!(server("10.1", "master").warnings().is_empty());
        assert!(server("6.2.5", "master").warnings()[0].starts_with("Redis at a:1: version 6.2.5"));
        assert!(server("8.0.2", "slave").warnings()[0].contains("slave"));
    }
}

//! The cases: what runs, against which servers, under which name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tollgate::algorithm::Gcra;
use tollgate::{Limit, Quota};
use tollgate_redis::slot::slot_of;
use tollgate_redis::transport::Call;
use tollgate_testkit::servers::{Redis, RedisCluster};

use super::callers::{self, Caller};
use super::ceiling::Ceiling;
use super::ping::Ping;
use super::sample::Run;
use super::tollgate::{Walk, of_limiter, of_store};
use super::wire::{Commands, calls, teach};
use super::{KEYS, PERIOD_SECONDS, UNITS, limitador, lockstep, race};
use crate::Result;

/// Where a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Standalone,
    Cluster,
}

/// One line of the table.
pub(super) struct Case<'a> {
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) place: Place,
    pub(super) run: Box<dyn FnMut(Duration) -> Result<Run> + 'a>,
}

/// What the cases are made from.
pub(super) struct Field<'a> {
    runtime: &'a Runtime,
    redis: &'a Redis,
    cluster: &'a RedisCluster,
    limit: Arc<Limit>,
    keys: Arc<[String]>,
    calls: Vec<Call>,
}

impl<'a> Field<'a> {
    pub(super) fn new(
        runtime: &'a Runtime,
        redis: &'a Redis,
        cluster: &'a RedisCluster,
    ) -> Result<Self> {
        let quota = Quota::new(UNITS, Duration::from_secs(PERIOD_SECONDS));
        let rule = Gcra::new(quota).map_err(|error| error.to_string())?;
        let limit = Arc::new(Limit::new("bench", rule).map_err(|error| error.to_string())?);
        let keys: Arc<[String]> = (0..KEYS).map(|number| format!("user-{number:05}")).collect();
        let calls = calls(runtime, &limit, &keys);
        teach(&calls, std::iter::once(redis).chain(cluster.nodes()))?;
        Ok(Self { runtime, redis, cluster, limit, keys, calls })
    }

    /// A case by its name. Made only when it is wanted: some open many connections.
    pub(super) fn case(&self, id: &'static str) -> Result<Case<'a>> {
        let url = self.redis.url();
        let apart = |count| Walk::apart(&self.keys, count);
        let hot = |count| Walk::together("hot", count);
        let (limit, runtime) = (&self.limit, self.runtime);
        match id {
            "a-ceiling" => self.ceiling(),
            "b-store" => Ok(self.called(
                id,
                "Tollgate, store, 256 callers, distinct keys",
                of_store(&url, limit, apart(256))?,
            )),
            "b-limiter" => Ok(self.called(
                id,
                "Tollgate, limiter, 256 callers, distinct keys",
                of_limiter(&url, limit, apart(256))?,
            )),
            "c-hot-64" => Ok(self.called(
                id,
                "Tollgate, limiter, 64 callers, one key",
                of_limiter(&url, limit, hot(64))?,
            )),
            "c-hot-256" => Ok(self.called(
                id,
                "Tollgate, limiter, 256 callers, one key",
                of_limiter(&url, limit, hot(256))?,
            )),
            "d-lockstep" => {
                let commands = Arc::new(commands_of(self.calls.iter()));
                let links = lockstep::connect(runtime, self.redis.addr(), &commands, 64)?;
                Ok(self.called(id, "one EVALSHA per call, 64 connections, not pipelined", links))
            }
            "e-limitador" => {
                let callers = limitador::of_limitador(runtime, &url, &self.keys, 256)?;
                Ok(self.called(id, "limitador, 256 callers, distinct keys", callers))
            }
            "f-race-combined" => Ok(self.called(
                id,
                "WATCH, 64 callers of one store, one key",
                race::contenders(&url, "together", 64, true)?,
            )),
            "f-race-apart" => Ok(self.called(
                id,
                "WATCH, 64 stores, one key",
                race::contenders(&url, "apart", 64, false)?,
            )),
            "lone-ping" => self.ping(),
            "lone-ping-async" => {
                let ping = Arc::new(Commands::of(&[b"PING"]));
                let links = lockstep::connect(runtime, self.redis.addr(), &ping, 1)?;
                Ok(self.called(id, "lone PING, tokio", links))
            }
            "lone-evalsha" => {
                let commands = Arc::new(commands_of(self.calls.iter()));
                let links = lockstep::connect(runtime, self.redis.addr(), &commands, 1)?;
                Ok(self.called(id, "lone EVALSHA, tokio", links))
            }
            "lone-store" => {
                Ok(self.called(id, "lone Tollgate, store", of_store(&url, limit, apart(1))?))
            }
            "lone-limiter" => {
                Ok(self.called(id, "lone Tollgate, limiter", of_limiter(&url, limit, apart(1))?))
            }
            "cluster-a-ceiling" => self.cluster_ceiling(),
            "cluster-b-store" => {
                let url = self.cluster_url();
                let callers = of_store(&url, limit, apart(256))?;
                let mut case = self.called(
                    id,
                    "cluster: Tollgate, store, 256 callers, distinct keys",
                    callers,
                );
                case.place = Place::Cluster;
                Ok(case)
            }
            other => Err(format!("no case is called {other}")),
        }
    }

    fn called<C: Caller>(&self, id: &'static str, title: &str, mut callers: Vec<C>) -> Case<'a> {
        let runtime = self.runtime;
        let run = move |time| callers::run(runtime, &mut callers, time);
        Case { id, title: title.to_owned(), place: Place::Standalone, run: Box::new(run) }
    }

    fn ping(&self) -> Result<Case<'a>> {
        let mut ping = Ping::new(self.redis.addr())?;
        let run = Box::new(move |time| ping.run(time));
        let title = "lone PING, blocking socket".to_owned();
        Ok(Case { id: "lone-ping", title, place: Place::Standalone, run })
    }

    fn ceiling(&self) -> Result<Case<'a>> {
        let mut ceiling = Ceiling::new(vec![(self.redis.addr(), commands_of(self.calls.iter()))])?;
        let title = format!("bare EVALSHA, {} under way", ceiling.window());
        let run = Box::new(move |time| ceiling.run(time));
        Ok(Case { id: "a-ceiling", title, place: Place::Standalone, run })
    }

    fn cluster_ceiling(&self) -> Result<Case<'a>> {
        let mut loads: Vec<(SocketAddr, Commands)> =
            self.cluster.nodes().iter().map(|node| (node.addr(), Commands::default())).collect();
        let owners = self.owners()?;
        for call in &self.calls {
            let slot = call.keys().first().map_or(0, |key| slot_of(key.as_bytes()));
            let (_, commands) = &mut loads[owners[usize::from(slot)]];
            commands.push(call.words());
        }
        let mut ceiling = Ceiling::new(loads)?;
        let title = format!("cluster: bare EVALSHA, {} under way per master", ceiling.window());
        let run = Box::new(move |time| ceiling.run(time));
        Ok(Case { id: "cluster-a-ceiling", title, place: Place::Cluster, run })
    }

    /// The node of each slot: the harness gives slots out evenly and in order.
    fn owners(&self) -> Result<Vec<usize>> {
        let count = self.cluster.nodes().len();
        let mut owners = Vec::with_capacity(SLOTS);
        for node in 0..count {
            let (first, end) = (SLOTS * node / count, SLOTS * (node + 1) / count);
            let slot = u16::try_from(first).map_err(|error| error.to_string())?;
            if self.cluster.owner(slot).map_err(|error| error.to_string())? != node {
                return Err("the slots of the cluster are not where they were given to".into());
            }
            owners.extend(std::iter::repeat_n(node, end - first));
        }
        Ok(owners)
    }

    fn cluster_url(&self) -> String {
        let hosts: Vec<String> =
            self.cluster.nodes().iter().map(|node| node.addr().to_string()).collect();
        format!("redis-cluster://{}", hosts.join(","))
    }
}

const SLOTS: usize = 16_384;

fn commands_of<'c>(calls: impl Iterator<Item = &'c Call>) -> Commands {
    let mut commands = Commands::default();
    calls.for_each(|call| commands.push(call.words()));
    commands
}

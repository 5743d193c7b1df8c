//! The cases: what runs, against which servers, under which name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::Gcra;
use tollgate::{Limit, Quota};
use tollgate_redis::slot::slot_of;
use tollgate_redis::transport::Call;
use tollgate_test_servers::{Redis, RedisCluster};

use super::callers::{self, Caller};
use super::ceiling::Ceiling;
use super::ping::Ping;
use super::sample::Run;
use super::tollgate::{of_limiter, of_store};
use super::walk::{self, Walk};
use super::wire::{Commands, calls, teach};
use super::{PERIOD_SECONDS, Runtimes, UNITS, limitador, lockstep, race};
use crate::Result;

/// Callers of the cases with distinct keys.
const CALLERS: usize = 256;
/// Contenders of a race.
const CONTENDERS: usize = 64;
/// Slots of a cluster.
const SLOTS: usize = 16_384;

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
    run: Box<dyn FnMut(Duration) -> Result<Run> + 'a>,
}

impl Case<'_> {
    pub(super) fn run_for(&mut self, time: Duration) -> Result<Run> {
        (self.run)(time).map_err(|error| format!("{}: {error}", self.id))
    }
}

/// What the cases are made from.
pub(super) struct Field<'a> {
    runtimes: &'a Runtimes,
    redis: &'a Redis,
    cluster: &'a RedisCluster,
    limit: Arc<Limit>,
    calls: Vec<Call>,
}

impl<'a> Field<'a> {
    pub(super) fn new(
        runtimes: &'a Runtimes,
        redis: &'a Redis,
        cluster: &'a RedisCluster,
    ) -> Result<Self> {
        let quota = Quota::new(UNITS, Duration::from_secs(PERIOD_SECONDS));
        let rule = Gcra::new(quota).map_err(|error| error.to_string())?;
        let limit = Arc::new(Limit::new("bench", rule).map_err(|error| error.to_string())?);
        let calls = calls(&runtimes.main, &limit, walk::all());
        teach(&calls, std::iter::once(redis).chain(cluster.nodes()))?;
        Ok(Self { runtimes, redis, cluster, limit, calls })
    }

    /// A case by its name. Made only when it is wanted: some open many connections.
    pub(super) fn case(&self, id: &'static str) -> Result<Case<'a>> {
        match id.split_once('-') {
            Some(("a", _)) => self.ceiling(),
            Some(("b" | "c", _)) => self.shared(id),
            Some(("d" | "e", _)) => self.rival(id),
            Some(("f", _)) => self.race(id),
            Some(("lone", _)) => self.lone(id),
            Some(("cluster", _)) => self.on_cluster(id),
            _ => Err(unknown(id)),
        }
    }

    fn shared(&self, id: &'static str) -> Result<Case<'a>> {
        let (url, limit) = (self.redis.url(), &self.limit);
        let apart = || Walk::apart(CALLERS);
        let hot = |count| Walk::together(count);
        let of_limiter = |walks| of_limiter(&url, limit, walks);
        Ok(match id {
            "b-store" => {
                let title = "Tollgate, store, 256 callers, distinct keys";
                self.called(id, title, of_store(&url, limit, apart())?)
            }
            "b-limiter" => {
                let title = "Tollgate, limiter, 256 callers, distinct keys";
                self.called(id, title, of_limiter(apart())?)
            }
            "c-hot-64" => {
                self.called(id, "Tollgate, limiter, 64 callers, one key", of_limiter(hot(64))?)
            }
            "c-hot-256" => {
                self.called(id, "Tollgate, limiter, 256 callers, one key", of_limiter(hot(256))?)
            }
            other => return Err(unknown(other)),
        })
    }

    fn rival(&self, id: &'static str) -> Result<Case<'a>> {
        if id == "d-lockstep" {
            let title = "one EVALSHA per call, 64 connections, not pipelined";
            return Ok(self.called(id, title, self.lockstep(commands_of(&self.calls), 64)?));
        }
        let (main, walks) = (&self.runtimes.main, Walk::apart(CALLERS));
        let callers = limitador::of_limitador(main, &self.redis.url(), walks)?;
        Ok(self.called(id, "limitador, 256 callers, distinct keys", callers))
    }

    fn race(&self, id: &'static str) -> Result<Case<'a>> {
        let url = self.redis.url();
        let (title, contenders) = match id {
            "f-race-combined" => {
                let contenders = race::contenders(&url, "together", CONTENDERS, true)?;
                ("read and swap, 64 callers of one store, one key", contenders)
            }
            _ => {
                let contenders = race::contenders(&url, "apart", CONTENDERS, false)?;
                ("read and swap, 64 stores of one caller, one key", contenders)
            }
        };
        Ok(self.called(id, title, contenders))
    }

    fn lone(&self, id: &'static str) -> Result<Case<'a>> {
        let (url, limit) = (self.redis.url(), &self.limit);
        let walk = || Walk::apart(1);
        Ok(match id {
            "lone-ping" => return self.ping(),
            "lone-ping-async" => {
                let links = self.lockstep(Commands::of(&[b"PING"]), 1)?;
                self.called(id, "lone PING, tokio", links)
            }
            "lone-evalsha" => {
                let links = self.lockstep(commands_of(&self.calls), 1)?;
                self.called(id, "lone EVALSHA, tokio", links)
            }
            "lone-store" => self.called(id, "lone Tollgate, store", of_store(&url, limit, walk())?),
            "lone-limiter" => {
                self.called(id, "lone Tollgate, limiter", of_limiter(&url, limit, walk())?)
            }
            other => return Err(unknown(other)),
        })
    }

    fn on_cluster(&self, id: &'static str) -> Result<Case<'a>> {
        if id == "cluster-a-ceiling" {
            return self.cluster_ceiling();
        }
        let walks = Walk::apart(CALLERS);
        let callers = of_store(&self.cluster_url(), &self.limit, walks)?;
        let title = "3 masters: Tollgate, store, 256 callers, distinct keys";
        Ok(self.called_on(Place::Cluster, id, title, callers))
    }

    fn lockstep(&self, commands: Commands, count: usize) -> Result<Vec<lockstep::Lockstep>> {
        lockstep::connect(&self.runtimes.main, self.redis.addr(), &Arc::new(commands), count)
    }

    fn called<C: Caller>(&self, id: &'static str, title: &str, callers: Vec<C>) -> Case<'a> {
        self.called_on(Place::Standalone, id, title, callers)
    }

    fn called_on<C: Caller>(
        &self,
        place: Place,
        id: &'static str,
        title: &str,
        mut callers: Vec<C>,
    ) -> Case<'a> {
        let runtime = match place {
            Place::Standalone => &self.runtimes.main,
            Place::Cluster => &self.runtimes.cluster,
        };
        let run = move |time| callers::run(runtime, &mut callers, time);
        Case { id, title: title.to_owned(), place, run: Box::new(run) }
    }

    fn ping(&self) -> Result<Case<'a>> {
        let mut ping = Ping::new(self.redis.addr())?;
        let run = Box::new(move |time| ping.run(time));
        let title = "lone PING, blocking socket".to_owned();
        Ok(Case { id: "lone-ping", title, place: Place::Standalone, run })
    }

    fn ceiling(&self) -> Result<Case<'a>> {
        let mut ceiling = Ceiling::new(vec![(self.redis.addr(), commands_of(&self.calls))])?;
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
        let title = format!("3 masters: bare EVALSHA, {} under way on each", ceiling.window());
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

fn commands_of(calls: &[Call]) -> Commands {
    let mut commands = Commands::default();
    calls.iter().for_each(|call| commands.push(call.words()));
    commands
}

fn unknown(id: &str) -> String {
    format!("no case is called {id}")
}

//! The faults: each is caused, lasts for a time, and ends.

use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use tokio_postgres::NoTls;
use tollgate_test_servers::{Mode, Server};
use tollgate_testkit::rng::Rng;

use crate::Result;
use crate::backend::{Backend, Servers, Store};
use crate::fleet::{Fleet, Kind, MODES};
use crate::traffic::name_of_key;

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The server of the store, or one master of a cluster, is killed and started again.
    Killed,
    /// It stops answering (SIGSTOP), and goes on.
    Frozen,
    /// Every round trip takes this many milliseconds longer.
    Latency(u64),
    /// All connections are reset once.
    Reset,
    /// Bytes are lost in both directions, and connections stay open.
    HalfOpen,
    /// All data are deleted.
    Flushed,
    /// Writes are refused for lack of memory.
    OutOfMemory,
    /// The master is killed, or one of a cluster; its replica becomes the master.
    FailOver,
    /// Another session locks the rows of one key of each policy.
    LockedRows,
    /// Another process holds the write lock of the file.
    LockedFile,
    /// Another process holds the write lock of the file for 40 ms of every 50.
    BusyFile,
    /// Files may not be written, as on a full disk.
    FullDisk,
    /// One of the servers of the fleet is killed and started again.
    ServerKilled,
    /// Any of the others that suits the store, one after the other, for this many seconds.
    Chaos(u64),
}

impl Fault {
    /// The name in tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Killed => "killed".to_owned(),
            Self::Frozen => "frozen".to_owned(),
            Self::Latency(ms) => format!("latency-{ms}-ms"),
            Self::Reset => "reset".to_owned(),
            Self::HalfOpen => "half-open".to_owned(),
            Self::Flushed => "flushed".to_owned(),
            Self::OutOfMemory => "out-of-memory".to_owned(),
            Self::FailOver => "fail-over".to_owned(),
            Self::LockedRows => "locked-rows".to_owned(),
            Self::LockedFile => "locked-file".to_owned(),
            Self::BusyFile => "busy-file".to_owned(),
            Self::FullDisk => "full-disk".to_owned(),
            Self::ServerKilled => "tollgate-killed".to_owned(),
            Self::Chaos(seconds) => format!("chaos-{seconds}-s"),
        }
    }

    /// Whether it happens between the servers of the fleet and the store.
    pub(crate) const fn is_of_network(self) -> bool {
        matches!(self, Self::Latency(_) | Self::Reset | Self::HalfOpen)
    }

    /// Whether a store is behind proxies for it.
    pub(crate) const fn needs_proxies(self, store: Store) -> bool {
        self.is_of_network()
            || (matches!(self, Self::Chaos(_)) && !matches!(store, Store::Sqlite | Store::Sentinel))
    }

    /// Whether the store itself loses what it has acknowledged.
    #[must_use]
    pub fn forgets(self, store: Store) -> bool {
        match self {
            Self::Flushed | Self::FailOver => true,
            Self::Killed => matches!(store, Store::DynamoDb),
            _ => false,
        }
    }

    /// Causes it, waits for `hold`, and ends it.
    pub(crate) async fn strike(
        self,
        (backend, fleet): (&Backend, &Fleet),
        hold: Duration,
        rng: &mut Rng,
    ) -> Result<()> {
        match self {
            Self::None => sleep(hold).await,
            Self::Killed => kill(backend.server()?, hold).await?,
            Self::Frozen => {
                let server = backend.server()?;
                block_in_place(|| server.stop_answering())?;
                sleep(hold).await;
                block_in_place(|| server.go_on())?;
            }
            Self::Latency(ms) => {
                behind(backend, Mode::Latency(Duration::from_millis(ms)), hold).await?;
            }
            Self::Reset => block_in_place(|| backend.reset())?,
            Self::HalfOpen => behind(backend, Mode::Blackhole, hold).await?,
            Self::Flushed => command(backend, &["FLUSHALL"])?,
            Self::OutOfMemory => {
                command(backend, &["CONFIG", "SET", "maxmemory", "1"])?;
                sleep(hold).await;
                command(backend, &["CONFIG", "SET", "maxmemory", "0"])?;
            }
            Self::FailOver => block_in_place(|| fail_over(backend))?,
            Self::LockedRows => lock_rows(backend, hold).await?,
            Self::LockedFile => lock_file(backend, hold).await?,
            Self::BusyFile => {
                let end = Instant::now() + hold;
                while Instant::now() < end {
                    lock_file(backend, Duration::from_millis(40)).await?;
                    sleep(Duration::from_millis(10)).await;
                }
            }
            Self::FullDisk => {
                fleet.limit_files("0")?;
                sleep(hold).await;
                fleet.limit_files("unlimited")?;
            }
            Self::ServerKilled => kill(fleet.server(0)?, hold).await?,
            Self::Chaos(seconds) => {
                let end = Instant::now() + Duration::from_secs(seconds);
                while Instant::now() < end {
                    let fault = rng.pick(of_chaos(&backend.servers), Self::None);
                    let hold = Duration::from_millis(rng.between(50, 800));
                    Box::pin(fault.strike((backend, fleet), hold, rng)).await?;
                    sleep(Duration::from_millis(rng.between(100, 600))).await;
                }
            }
        }
        Ok(())
    }
}

/// The parts of a chaos run.
const fn of_chaos(servers: &Servers) -> &'static [Fault] {
    match servers {
        Servers::Postgres(_) => &[
            Fault::Killed,
            Fault::Frozen,
            Fault::Latency(24),
            Fault::Latency(120),
            Fault::Reset,
            Fault::HalfOpen,
            Fault::LockedRows,
            Fault::ServerKilled,
        ],
        Servers::Sqlite(_) => {
            &[Fault::LockedFile, Fault::BusyFile, Fault::FullDisk, Fault::ServerKilled]
        }
        // The emulator forgets its table when it is killed.
        Servers::DynamoDb(_) => &[
            Fault::Frozen,
            Fault::Latency(24),
            Fault::Latency(120),
            Fault::Reset,
            Fault::HalfOpen,
            Fault::ServerKilled,
        ],
        _ => &[
            Fault::Killed,
            Fault::Frozen,
            Fault::Latency(24),
            Fault::Latency(120),
            Fault::Reset,
            Fault::HalfOpen,
            Fault::ServerKilled,
        ],
    }
}

/// Kills a process and starts it again.
async fn kill(server: &Server, hold: Duration) -> Result<()> {
    block_in_place(|| server.kill())?;
    sleep(hold).await;
    Ok(block_in_place(|| server.restart())?)
}

async fn behind(backend: &Backend, mode: Mode, hold: Duration) -> Result<()> {
    backend.set(mode)?;
    sleep(hold).await;
    backend.set(Mode::Pass)
}

fn command(backend: &Backend, words: &[&str]) -> Result<()> {
    block_in_place(|| {
        backend.redis()?.client()?.call(words)?.ok()?;
        Ok(())
    })
}

/// Kills the master of which there is a replica, and waits until that is the master.
fn fail_over(backend: &Backend) -> Result<()> {
    match (&backend.servers, &backend.replica) {
        (Servers::Sentinel(sentinel), _) => sentinel.fail_over().map(drop)?,
        (Servers::Cluster(cluster), Some(replica)) => cluster.fail_over(0, replica)?,
        _ => return Err("only sentinels and clusters with a replica fail over".into()),
    }
    Ok(())
}

/// Holds the write lock of a SQLite file, as another process would.
async fn lock_file(backend: &Backend, hold: Duration) -> Result<()> {
    let writer = rusqlite::Connection::open(backend.file()?)?;
    writer.busy_timeout(Duration::from_secs(5))?;
    block_in_place(|| writer.execute_batch("BEGIN IMMEDIATE"))?;
    sleep(hold).await;
    Ok(writer.execute_batch("ROLLBACK")?)
}

/// In a transaction of another session.
async fn lock_rows(backend: &Backend, hold: Duration) -> Result<()> {
    let Servers::Postgres(server) = &backend.servers else {
        return Err("only PostgreSQL has rows".into());
    };
    let (holder, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
    tokio::spawn(connection);
    let policies =
        MODES.map(|mode| [Kind::Counted, Kind::Identified].map(|kind| kind.policy(mode)));
    let keys = policies.as_flattened().iter();
    let keys = keys.map(|policy| format!("'tollgate:{policy}:{{{}}}'", name_of_key(0)));
    let keys: Vec<String> = keys.collect();
    let keys = keys.join(",");
    let lock = format!("BEGIN; SELECT FROM tollgate.limits WHERE key IN ({keys}) FOR UPDATE");
    holder.batch_execute(&lock).await?;
    sleep(hold).await;
    holder.batch_execute("ROLLBACK").await?;
    Ok(())
}

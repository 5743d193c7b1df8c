//! Three processes of `tollgate serve` over one store, and a client of their HTTP interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::OutageMode;
use tollgate_test_servers::{Error, Resources, Server, ServerSpec, server_command};

use crate::Result;
use crate::http::Connection;
use crate::sample::Answer;

/// How many processes share the store.
pub(crate) const SERVERS: usize = 3;
/// The outage modes, each with its policies.
pub const MODES: [OutageMode; 3] = [OutageMode::Open, OutageMode::Closed, OutageMode::Local];
/// The units of a key of a [`Kind::Counted`] policy.
pub(crate) const LIMIT: u64 = 20;
/// The units of a key of a [`Kind::Identified`] policy: more than are asked for.
const MANY: u64 = 100_000_000;
/// The client waits far longer than a server may take.
const NO_ANSWER: Duration = Duration::from_secs(5);
/// How long a server may take to decide by the store after a fault, and the wait between attempts.
const SETTLED: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
const CONFIG: &str = "tollgate.yaml";

/// What a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Few units, so that one too many is seen.
    Counted,
    /// Each call has a request id, which shows afterwards whether it was charged.
    Identified,
}

impl Kind {
    /// The policy of this kind with this mode.
    #[must_use]
    pub fn policy(self, mode: OutageMode) -> String {
        let kind = match self {
            Self::Counted => "counted",
            Self::Identified => "identified",
        };
        format!("{kind}-{}", mode.as_str())
    }

    const fn limit(self) -> u64 {
        match self {
            Self::Counted => LIMIT,
            Self::Identified => MANY,
        }
    }
}

/// The processes.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<Server>,
    idle: Vec<Mutex<Vec<Connection>>>,
}

impl Fleet {
    /// Starts them: `program` is the binary `tollgate`.
    ///
    /// # Errors
    /// When one does not start.
    pub fn start(program: &str, store: &str) -> Result<Self> {
        let spec = Tollgate { program: program.into(), config: config(store) };
        let servers = (0..SERVERS).map(|_| Server::start(spec.clone()));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let idle = servers.iter().map(|_| Mutex::default()).collect();
        Ok(Self { servers, idle })
    }

    /// One of the processes.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn server(&self, index: usize) -> Result<&Server> {
        Ok(self.servers.get(index).ok_or("the fleet has no such server")?)
    }

    /// Charges a unit of a key, by one of the servers.
    pub async fn acquire(
        &self,
        server: usize,
        policy: &str,
        key: &str,
        id: Option<&str>,
    ) -> Answer {
        self.acquire_timed(server, policy, (key, id)).await.answer
    }

    /// The same, with the time from the last byte of the request to the answer: neither the load
    /// itself nor a new connection is in it.
    pub(crate) async fn acquire_timed(
        &self,
        server: usize,
        policy: &str,
        (key, id): (&str, Option<&str>),
    ) -> Timed {
        let mut body = json!({"policy": policy, "key": key});
        if let Some((id, body)) = id.zip(body.as_object_mut()) {
            body.insert("request_id".to_owned(), id.into());
        }
        let mut sent = Instant::now();
        let call = self.post(server, ("/v1/acquire", &body), &mut sent);
        let answer = match timeout(NO_ANSWER, call).await {
            Ok(Ok(answer)) => read(&answer),
            _ => Answer::Failed("no_answer".to_owned()),
        };
        Timed { sent, took: sent.elapsed(), answer }
    }

    /// How many units of a key are charged.
    ///
    /// # Errors
    /// When the server gives no number.
    pub async fn charged(&self, kind: Kind, mode: OutageMode, key: &str) -> Result<u64> {
        let body = json!({"policy": kind.policy(mode), "key": key});
        let start = Instant::now();
        loop {
            let answer = self.post(0, ("/v1/peek", &body), &mut Instant::now()).await?;
            let remaining = answer.get("remaining").and_then(Value::as_u64);
            let is_by_store = answer.get("degraded").is_none();
            if let Some(remaining) = remaining.filter(|_| is_by_store) {
                return Ok(kind.limit().saturating_sub(remaining));
            }
            if start.elapsed() > SETTLED {
                return Err(format!("no units in {answer}").into());
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits until every server decides by the store.
    ///
    /// # Errors
    /// When one does not in time.
    pub async fn settle(&self) -> Result<()> {
        let policy = Kind::Identified.policy(OutageMode::Closed);
        let start = Instant::now();
        for server in 0..SERVERS {
            loop {
                let answer = self.acquire(server, &policy, "settled", None).await;
                if answer.is_by_store() {
                    break;
                }
                if start.elapsed() > SETTLED {
                    return Err(format!("server {server} still answers {answer:?}").into());
                }
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Limits how many bytes of a file the servers may write: `0`, or `unlimited`.
    ///
    /// # Errors
    /// When the limit cannot be set.
    pub(crate) fn limit_files(&self, bytes: &str) -> Result<()> {
        for server in &self.servers {
            let mut command = Command::new("prlimit");
            command.args(["--pid", &server.pid().to_string(), &format!("--fsize={bytes}:")]);
            let output = command.output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
        }
        Ok(())
    }

    async fn post(
        &self,
        server: usize,
        (path, body): (&str, &Value),
        sent: &mut Instant,
    ) -> Result<Value> {
        let idle = self.idle.get(server).ok_or("the fleet has no such server")?;
        let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::to(self.server(server)?.addr()).await?,
        };
        let answer = connection.post(path, body, sent).await?;
        idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(answer)
    }
}

/// An answer, and its time.
#[derive(Debug)]
pub(crate) struct Timed {
    pub(crate) sent: Instant,
    pub(crate) took: Duration,
    pub(crate) answer: Answer,
}

fn read(answer: &Value) -> Answer {
    let is = |name: &str| answer.get(name).and_then(Value::as_bool).unwrap_or_default();
    if let Some(code) = answer.get("code").and_then(Value::as_str) {
        return Answer::Failed(code.to_owned());
    }
    match answer.get("degraded").and_then(Value::as_str) {
        None => Answer::Store { allowed: is("allowed"), replayed: is("replayed") },
        Some(text) => {
            let mode = MODES.into_iter().find(|mode| mode.as_str() == text);
            mode.map_or_else(|| Answer::Failed(text.to_owned()), Answer::Degraded)
        }
    }
}

/// The defaults, but for a share of a third and policies whose units do not come back.
fn config(store: &str) -> String {
    let mut text = format!(
        "store: {}\ngrpc: off\nresp: off\nlocal_share: 1/3\nreceipt_secret: of-the-whole-fleet\n\
         policies:\n",
        json!(store)
    );
    for kind in [Kind::Counted, Kind::Identified] {
        for mode in MODES {
            let (policy, limit, mode) = (kind.policy(mode), kind.limit(), mode.as_str());
            text.push_str(&format!(
                "  {policy}: {{algorithm: fixed_window, anchor: first_hit, limit: {limit} per \
                 30d, on_outage: {mode}}}\n"
            ));
        }
    }
    text
}

/// How a server is started.
#[derive(Clone, Debug)]
struct Tollgate {
    program: PathBuf,
    config: String,
}

impl ServerSpec for Tollgate {
    fn name(&self) -> &'static str {
        "tollgate"
    }

    fn prepare(&self, resources: &Resources) -> tollgate_test_servers::Result<()> {
        let text = format!("http: {}\n{}", resources.addr(), self.config);
        resources.write(CONFIG, &text).map(drop)
    }

    fn command(&self, resources: &Resources) -> tollgate_test_servers::Result<Command> {
        let mut command = server_command(&self.program)?;
        command.env_clear().arg("serve").arg("--config").arg(resources.path(CONFIG));
        // Emulators of DynamoDB take any credentials.
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> tollgate_test_servers::Result<()> {
        let reply = healthz(resources.addr())?;
        match reply.starts_with("HTTP/1.1 200") {
            true => Ok(()),
            false => Err(Error::new(format!("it replied {reply:?}"))),
        }
    }
}

fn healthz(addr: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

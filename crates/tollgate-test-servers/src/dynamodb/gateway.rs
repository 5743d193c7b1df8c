//! What stands in front of an emulator: it counts what is asked and what that costs, and refuses on
//! command in the ways that emulators do not.
//!
//! Everything else reaches the emulator and is answered by it. A refusal can come instead of the
//! emulator's answer or after it has acted, which is how a request is applied and its answer lost.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufReader;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::wire::{self, Link, TARGET};
use crate::error::Result;
use crate::http::{self, Request, Response};
use crate::port::Port;

/// How long a connection to itself may take, to wake the thread that accepts.
const WAKE: Duration = Duration::from_secs(5);

/// Operations that are paid for in read units, and in write units.
const READS: [&str; 3] = ["GetItem", "BatchGetItem", "TransactGetItems"];
const WRITES: [&str; 3] = ["PutItem", "UpdateItem", "TransactWriteItems"];

/// An HTTP server in front of another. Dropping it closes its port and every connection.
#[derive(Debug)]
pub struct DynamoDbGateway {
    desk: Arc<Desk>,
    acceptor: Option<JoinHandle<()>>,
    port: Port,
}

/// An answer that is not the emulator's.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: u16,
    body: Value,
    is_too_late: bool,
}

/// What was asked so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// How often each operation was asked.
    pub requests: BTreeMap<String, u64>,
    /// How many requests found a condition that did not hold.
    pub lost_races: u64,
    /// Read units that the emulator charged.
    pub read_units: f64,
    /// Write units that the emulator charged. Failed conditions are not among them: the answer does
    /// not tell.
    pub write_units: f64,
}

/// What the threads of a gateway share.
#[derive(Debug)]
struct Desk {
    upstream: SocketAddr,
    /// The open connections; `None` once the gateway is closed.
    open: Mutex<Option<Vec<TcpStream>>>,
    tally: Mutex<Tally>,
    refusals: Mutex<BTreeMap<String, VecDeque<Refusal>>>,
}

impl Refusal {
    /// An error with this code.
    #[must_use]
    pub fn new(status: u16, code: &str) -> Self {
        let code = format!("com.amazonaws.dynamodb.v20120810#{code}");
        Self::with_body(status, json!({"__type": code, "message": "refused by the gateway"}))
    }

    /// A cancelled transaction, with one reason for each of its writes.
    #[must_use]
    pub fn cancelled(reasons: &[&str]) -> Self {
        let reasons: Vec<Value> = reasons.iter().map(|code| json!({"Code": code})).collect();
        let code = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
        let body = json!({"__type": code, "message": "cancelled", "CancellationReasons": reasons});
        Self::with_body(400, body)
    }

    /// Any answer.
    #[must_use]
    pub const fn with_body(status: u16, body: Value) -> Self {
        Self { status, body, is_too_late: false }
    }

    /// The same, after the emulator has done what was asked.
    #[must_use]
    pub const fn after_the_fact(mut self) -> Self {
        self.is_too_late = true;
        self
    }
}

impl Tally {
    /// How often an operation was asked.
    #[must_use]
    pub fn of(&self, operation: &str) -> u64 {
        self.requests.get(operation).copied().unwrap_or_default()
    }

    /// All requests that write.
    #[must_use]
    pub fn writes(&self) -> u64 {
        WRITES.iter().map(|operation| self.of(operation)).sum()
    }

    /// All requests that read.
    #[must_use]
    pub fn reads(&self) -> u64 {
        READS.iter().map(|operation| self.of(operation)).sum()
    }
}

impl DynamoDbGateway {
    /// Stands in front of a server.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn to(upstream: SocketAddr) -> Result<Self> {
        let port = Port::reserve()?;
        let listener = port.listen()?;
        let desk = Arc::new(Desk {
            upstream,
            open: Mutex::new(Some(Vec::new())),
            tally: Mutex::default(),
            refusals: Mutex::default(),
        });
        let shared = Arc::clone(&desk);
        let acceptor = thread::spawn(move || accept_for_ever(&listener, &shared));
        Ok(Self { desk, acceptor: Some(acceptor), port })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The address of a table as Tollgate takes it.
    #[must_use]
    pub fn url(&self, table: &str) -> String {
        wire::url(self.addr(), table)
    }

    /// Refuses the next request for an operation, after those that are to be refused already.
    pub fn refuse(&self, operation: &str, refusal: Refusal) {
        let mut refusals = lock(&self.desk.refusals);
        refusals.entry(operation.to_owned()).or_default().push_back(refusal);
    }

    /// What was asked since the last time, or since the start.
    #[must_use]
    pub fn take_tally(&self) -> Tally {
        core::mem::take(&mut *lock(&self.desk.tally))
    }
}

impl Drop for DynamoDbGateway {
    fn drop(&mut self) {
        let open = lock(&self.desk.open).take();
        for stream in open.into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The acceptor looks only when somebody connects.
        drop(TcpStream::connect_timeout(&self.addr(), WAKE));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Returns when the gateway is closed.
fn accept_for_ever(listener: &TcpListener, desk: &Arc<Desk>) {
    for stream in listener.incoming() {
        // A client that gave up, or too many open files: the next may have more luck.
        let Ok(stream) = stream else { continue };
        if !desk.enter(&stream) {
            return;
        }
        let desk = Arc::clone(desk);
        thread::spawn(move || serve(stream, &desk));
    }
}

/// Answers one request after another, until the client or the server goes.
fn serve(stream: TcpStream, desk: &Desk) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    if let Ok(mut link) = Link::to(desk.upstream) {
        while let Ok(Some(request)) = http::read(&mut stream) {
            let Some(response) = desk.answer(&request, &mut link) else { break };
            if http::write(stream.get_mut(), &request, &response).is_err() {
                break;
            }
        }
    }
    // The copy at the desk would keep the connection open.
    let _ = stream.get_ref().shutdown(Shutdown::Both);
}

impl Desk {
    /// Notes a connection; `false` when the gateway is closed.
    fn enter(&self, stream: &TcpStream) -> bool {
        let mut open = lock(&self.open);
        let (Some(open), Ok(copy)) = (open.as_mut(), stream.try_clone()) else {
            return false;
        };
        // One that has ended has no peer any more.
        open.retain(|stream| stream.peer_addr().is_ok());
        open.push(copy);
        true
    }

    /// The answer to a request; `None` when there is none.
    fn answer(&self, request: &Request, link: &mut Link) -> Option<Response> {
        let target = request.header("x-amz-target").unwrap_or_default();
        let operation = target.strip_prefix(TARGET).unwrap_or(target).to_owned();
        *lock(&self.tally).requests.entry(operation.clone()).or_default() += 1;
        let refusal = lock(&self.refusals).get_mut(&operation).and_then(VecDeque::pop_front);
        match refusal {
            Some(refusal) if !refusal.is_too_late => Some(refusal.into()),
            Some(refusal) => self.forward(&operation, request, link).map(|_| refusal.into()),
            None => self.forward(&operation, request, link),
        }
    }

    /// Asks the emulator, and what the answer costs.
    fn forward(&self, operation: &str, request: &Request, link: &mut Link) -> Option<Response> {
        let kept = |(name, _): &&(String, String)| {
            !matches!(name.as_str(), "host" | "content-length" | "connection")
        };
        let headers = request.headers.iter().filter(kept);
        let headers: Vec<(&str, &str)> =
            headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let is_read = READS.contains(&operation);
        let has_a_price = is_read || WRITES.contains(&operation);
        let asked = has_a_price.then(|| asking_for_costs(&request.body)).flatten();
        let (status, body) = link.send(&headers, asked.as_deref().unwrap_or(&request.body)).ok()?;
        let body = String::from_utf8(body).ok()?;
        self.note(is_read, &body);
        Some(Response { status, body })
    }

    fn note(&self, is_read: bool, body: &str) {
        let mut tally = lock(&self.tally);
        tally.lost_races += u64::from(body.contains("ConditionalCheckFailed"));
        let answer: Value = serde_json::from_str(body).unwrap_or_default();
        let costs = match answer.get("ConsumedCapacity") {
            Some(Value::Array(costs)) => costs.clone(),
            Some(cost) => vec![cost.clone()],
            None => Vec::new(),
        };
        for cost in costs {
            let units = cost.get("CapacityUnits").and_then(Value::as_f64).unwrap_or_default();
            *if is_read { &mut tally.read_units } else { &mut tally.write_units } += units;
        }
    }
}

/// The same request, with the wish to be told what it costs.
fn asking_for_costs(body: &[u8]) -> Option<Vec<u8>> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    body.as_object_mut()?.insert("ReturnConsumedCapacity".to_owned(), "TOTAL".into());
    Some(body.to_string().into_bytes())
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Self { status: refusal.status, body: refusal.body.to_string() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

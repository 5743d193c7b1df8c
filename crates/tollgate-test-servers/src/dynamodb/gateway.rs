//! A gateway in front of an emulator: it counts requests and their cost, and refuses requests in
//! ways that emulators do not.
//!
//! The emulator answers all other requests. A refusal replaces the answer of the emulator, before
//! or after the emulator has acted; the latter is a request that was applied and whose answer was
//! lost.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::{TARGET, TIMEOUT, url};
use crate::error::Result;
use crate::http::{Connection, Request, Response};
use crate::http_server::{Handler, HttpServer};

/// Operations that are paid for in read units, and in write units.
const READS: [&str; 3] = ["GetItem", "BatchGetItem", "TransactGetItems"];
const WRITES: [&str; 3] = ["PutItem", "UpdateItem", "TransactWriteItems"];

/// An HTTP server in front of another. Dropping it closes its port and every connection.
#[derive(Debug)]
pub struct DynamoDbGateway {
    state: Arc<State>,
    server: HttpServer,
}

/// An answer of the gateway.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: u16,
    body: Value,
    is_too_late: bool,
}

/// Requests and their cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Requests per operation.
    pub requests: BTreeMap<String, u64>,
    /// Requests whose condition did not hold.
    pub lost_races: u64,
    /// Read units that the emulator charged.
    pub read_units: f64,
    /// Write units that the emulator charged, without those of failed conditions, which the answer
    /// does not contain.
    pub write_units: f64,
}

/// The state that the connections of a gateway share.
#[derive(Debug)]
struct State {
    emulator: SocketAddr,
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

    /// The same answer, after the emulator has executed the request.
    #[must_use]
    pub const fn after_the_fact(mut self) -> Self {
        self.is_too_late = true;
        self
    }
}

impl Tally {
    /// Requests for an operation.
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
    /// Starts a gateway in front of an emulator.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn to(emulator: SocketAddr) -> Result<Self> {
        let (tally, refusals) = (Mutex::default(), Mutex::default());
        let state = Arc::new(State { emulator, tally, refusals });
        let shared = Arc::clone(&state);
        let server = HttpServer::start(move || {
            let state = Arc::clone(&shared);
            let mut connection = Connection::to(state.emulator, TIMEOUT).ok()?;
            let handler: Handler = Box::new(move |request| state.answer(request, &mut connection));
            Some(handler)
        })?;
        Ok(Self { state, server })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// The URL of a table for the store.
    #[must_use]
    pub fn url(&self, table: &str) -> String {
        url(self.addr(), table)
    }

    /// Refuses the next request for an operation that is not to be refused already.
    pub fn refuse(&self, operation: &str, refusal: Refusal) {
        let mut refusals = lock(&self.state.refusals);
        refusals.entry(operation.to_owned()).or_default().push_back(refusal);
    }

    /// The requests since the last call, or since the start.
    #[must_use]
    pub fn take_tally(&self) -> Tally {
        core::mem::take(&mut *lock(&self.state.tally))
    }
}

impl State {
    /// The answer to a request; `None` when the emulator does not answer.
    fn answer(&self, request: &Request, connection: &mut Connection) -> Option<Response> {
        let target = request.header("x-amz-target").unwrap_or_default();
        let operation = target.strip_prefix(TARGET).unwrap_or(target).to_owned();
        *lock(&self.tally).requests.entry(operation.clone()).or_default() += 1;
        let refusal = lock(&self.refusals).get_mut(&operation).and_then(VecDeque::pop_front);
        match refusal {
            Some(refusal) if !refusal.is_too_late => Some(refusal.into()),
            Some(refusal) => self.forward(&operation, request, connection).map(|_| refusal.into()),
            None => self.forward(&operation, request, connection),
        }
    }

    /// Sends a request to the emulator, and counts its cost.
    fn forward(
        &self,
        operation: &str,
        request: &Request,
        connection: &mut Connection,
    ) -> Option<Response> {
        let kept = |(name, _): &&(String, String)| {
            !matches!(name.as_str(), "host" | "content-length" | "connection")
        };
        let headers = request.headers.iter().filter(kept);
        let headers: Vec<(&str, &str)> =
            headers.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let is_read = READS.contains(&operation);
        let has_cost = is_read || WRITES.contains(&operation);
        let changed = has_cost.then(|| with_cost_option(&request.body)).flatten();
        let (status, body) = connection
            .send("POST /", &headers, changed.as_deref().unwrap_or(&request.body))
            .ok()?;
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

/// The same request, with an option that returns its cost.
fn with_cost_option(body: &[u8]) -> Option<Vec<u8>> {
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

//! How often a request allocates, in steady state: a check in memory and a decision over RESP not
//! at all, a request over HTTP or gRPC as often as is stated here.
//!
//! The clients are in this process too, and allocate nothing while it counts.
#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]

use std::alloc::System;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::sync::oneshot;
use tollgate::{Limit, Limiter, Quota};
use tollgate_server::{Addresses, Config, Server};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const FILE: &str = "policies: {p: {limit: 1000000000 per 1h}}";
/// Requests before counting, and while counting.
const WARM_UP: usize = 500;
const COUNTED: usize = 2_000;

/// The most allocations per request, of every layer from the socket on. A change that exceeds one
/// says so here.
const HTTP_MAX: f64 = 8.0;
const GRPC_MAX: f64 = 12.0;

/// Allocations while something runs, of all threads.
fn allocations(work: impl FnOnce()) -> usize {
    let count = || ALLOCATOR.stats().allocations + ALLOCATOR.stats().reallocations;
    let before = count();
    work();
    count() - before
}

/// Runs `work` beside a server.
fn beside_a_server(work: impl FnOnce(Addresses)) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let any = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let mut config = Config::of_text(&[], |_| None, Some(("t.yaml", FILE))).unwrap();
    (config.http, config.grpc, config.resp) = (any, any, any);
    let server = runtime.block_on(Server::bind(config)).unwrap();
    let at = server.addresses().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = runtime.spawn(server.run(async move {
        let _gone = stopped.await;
    }));
    work(at);
    drop(stop);
    runtime.block_on(running).unwrap();
}

fn connect(at: Option<SocketAddr>) -> TcpStream {
    let stream = TcpStream::connect(at.unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends requests one after the other, each after the reply to the one before is complete; the
/// allocations per request once the first are over.
fn per_request(
    stream: &mut TcpStream,
    requests: &[Vec<u8>],
    is_complete: impl Fn(&[u8]) -> bool,
) -> f64 {
    let mut reply = [0; 64 * 1_024];
    let mut exchange = |request: &[u8]| {
        stream.write_all(request).unwrap();
        let mut length = 0;
        while !is_complete(&reply[..length]) {
            let read = stream.read(&mut reply[length..]).unwrap();
            assert!(read > 0, "the server closed: {:?}", reply[..length].escape_ascii());
            length += read;
        }
    };
    requests[..WARM_UP].iter().for_each(|request| exchange(request));
    let counted = allocations(|| requests[WARM_UP..].iter().for_each(|request| exchange(request)));
    f64::from(u32::try_from(counted).unwrap()) / f64::from(u32::try_from(COUNTED).unwrap())
}

/// Requests with one of a few keys each.
fn requests(of: impl Fn(usize, &str) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..WARM_UP + COUNTED).map(|number| of(number, &format!("key:{}", number % 8))).collect()
}

fn memory_checks_allocate_nothing() {
    let limiter = Limiter::in_memory();
    let limits = [
        Limit::gcra("gcra", Quota::per_second(1_000)).unwrap(),
        Limit::fixed_window("window", Quota::per_minute(100)).unwrap(),
    ];
    let check = || {
        for limit in &limits {
            for key in ["a", "b", "c"] {
                limiter.sync().check(limit.charge(key)).unwrap();
            }
        }
    };
    check();
    let counted = allocations(|| (0..COUNTED).for_each(|_| check()));
    assert_eq!(counted, 0, "allocations of {COUNTED} rounds of checks");
}

fn resp_decisions_allocate_nothing(at: Addresses) {
    let word = |word: &str| format!("${}\r\n{word}\r\n", word.len());
    let acquire = |key: &str| format!("*3\r\n{}{}{}", word("TG.ACQUIRE"), word("p"), word(key));
    let throttle = |key: &str| {
        let numbers = [word("1000000"), word("1000000"), word("60")].concat();
        format!("*5\r\n{}{}{numbers}", word("CL.THROTTLE"), word(key))
    };
    // A reply that no other ends with: that of a command without a decision.
    let end = |reply: &[u8]| reply.ends_with(b"+PONG\r\n");
    let ping = "*1\r\n$4\r\nPING\r\n";
    let mut stream = connect(at.resp);
    let pings = per_request(&mut stream, &requests(|_, _| ping.into()), end);
    for (name, command) in
        [("TG.ACQUIRE", &acquire as &dyn Fn(&str) -> String), ("CL.THROTTLE", &throttle)]
    {
        for pipelined in [1, 16] {
            let commands = |_, key: &str| (command(key).repeat(pipelined) + ping).into_bytes();
            let counted = per_request(&mut stream, &requests(commands), end);
            println!("{name}, {pipelined} pipelined: {:.3} per pipeline", counted - pings);
            assert!(counted <= pings + 0.01, "{name}: {counted} with PING, {pings} for PING");
        }
    }
}

fn http_requests_allocate_little(at: Addresses) {
    let request = |_, key: &str| {
        let body = format!(r#"{{"policy":"p","key":"{key}"}}"#);
        let length = body.len();
        format!(
            "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    };
    let counted =
        per_request(&mut connect(at.http), &requests(request), |reply| reply.ends_with(b"}]}"));
    println!("HTTP: {counted:.2} allocations per request");
    assert!(counted <= HTTP_MAX, "{counted}");
}

fn grpc_requests_allocate_little(at: Addresses) {
    let path = b"/tollgate.v1.RateLimiter/Acquire";
    let head = [
        b"\x83\x86\x04".as_slice(),
        &[u8::try_from(path.len()).unwrap()],
        path,
        b"\x01\x09localhost\x0f\x10\x10application/grpc\x00\x02te\x08trailers",
    ]
    .concat();
    let request = |number: usize, key: &str| {
        let stream = u32::try_from(2 * number + 1).unwrap();
        let message = [b"\x0a\x01p\x12\x05".as_slice(), key.as_bytes()].concat();
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = [b"\0".as_slice(), &length, &message].concat();
        [frame(1, 4, stream, &head), frame(0, 1, stream, &body)].concat()
    };
    let mut stream = connect(at.grpc);
    let settings = frame(4, 0, 0, b"");
    let window = frame(8, 0, 0, &(1_u32 << 30).to_be_bytes());
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &*settings, &*window].concat();
    stream.write_all(&preface).unwrap();
    let requests = requests(request);
    let counted = per_request(&mut stream, &requests, has_trailers);
    println!("gRPC: {counted:.2} allocations per request");
    assert!(counted <= GRPC_MAX, "{counted}");
}

/// Whether the frames have headers that end a stream.
fn has_trailers(mut frames: &[u8]) -> bool {
    while let [high, middle, low, kind, flags, _, _, _, _, rest @ ..] = frames {
        let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
        let Some(after) = rest.get(length..) else { return false };
        if *kind == 1 && flags & 1 == 1 {
            return true;
        }
        frames = after;
    }
    false
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// One test: others would allocate meanwhile.
#[test]
fn allocations_of_a_request_are_as_stated() {
    memory_checks_allocate_nothing();
    beside_a_server(|at| {
        resp_decisions_allocate_nothing(at);
        http_requests_allocate_little(at);
        grpc_requests_allocate_little(at);
    });
}

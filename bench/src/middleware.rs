//! `tower`: what a limit adds to a request of an axum service, beside tower_governor.
//!
//! The service is called in this thread without a socket: a socket costs more than all of this, and
//! hides it. What is shown is the difference to the bare service, measured in the same rounds.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use tokio::runtime::Runtime;
use tollgate::algorithm::Gcra;
use tollgate::store::Memory;
use tollgate::{Limit, Limiter, Quota};
use tollgate_tower::extract::ClientIp;
use tollgate_tower::{Dialect, RateLimitLayer, Reset};
use tower::Service;
use tower::layer::util::Identity;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

use crate::Result;
use crate::args::Args;
use crate::counting_alloc::count;
use crate::instructions;
use crate::measure;
use crate::report::Markdown;

/// A request takes as long as this many checks: a round has fewer requests by this factor.
const CHECKS_PER_REQUEST: usize = 20;

/// A service behind a limit, or not; made for a path and a number of clients.
type Contender = (&'static str, &'static str, fn(Path, u32) -> Router);

const CONTENDERS: [Contender; 8] = [
    ("bare axum", "none", |_, _| app()),
    ("a layer that does nothing", "none", |_, _| app().layer(Identity::new())),
    ("Tollgate", "none", |path, keys| tollgate(path, keys, &[])),
    ("Tollgate, default table", "none", |path, _| tollgate(path, DEFAULT_KEYS, &[])),
    ("tower_governor", "none", governor),
    ("Tollgate", "RateLimit, RateLimit-Policy", |path, keys| {
        tollgate(path, keys, &[Dialect::Draft11])
    }),
    ("Tollgate", "X-RateLimit-*", |path, keys| {
        tollgate(path, keys, &[Dialect::XRateLimit(Reset::Seconds)])
    }),
    ("tower_governor", "X-RateLimit-*", governor_with_headers),
];

/// A contender as `axum::serve` has it: routes are put behind their layers once, not per request.
fn served((_, _, make): &Contender, path: Path, clients: u32) -> Router {
    make(path, clients).with_state(())
}

/// The default bound of a table.
const DEFAULT_KEYS: u32 = 1_000_000;
/// The bound where there are fewer clients.
const FEWEST_KEYS: u32 = 1_000;

/// Whether the requests pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Allow,
    Deny,
}

impl Path {
    /// So large that all pass, or so small that after the first none does.
    const fn burst(self) -> u32 {
        match self {
            Self::Allow => 1_000_000_000,
            Self::Deny => 1,
        }
    }
}

/// The subcommand with which this program calls itself under callgrind.
pub(crate) const CHILD: &str = "child-tower";
const COUNTED_REQUESTS: usize = 5_000;

/// The other side of [`instructions`].
pub(crate) fn child(words: &[String]) -> Result<()> {
    let number = |index: usize| words.get(index).and_then(|word| word.parse::<usize>().ok());
    let (Some(place), Some(path), Some(clients)) = (number(0), number(1), number(2)) else {
        return Err(format!("{CHILD} is for this program only"));
    };
    let path = if path == 0 { Path::Allow } else { Path::Deny };
    let clients = u32::try_from(clients).map_err(|error| error.to_string())?;
    let contender = CONTENDERS.get(place).ok_or("unknown contender")?;
    let (runtime, mut service) = (runtime()?, served(contender, path, clients));
    runtime.block_on(run(&mut service, clients, clients as usize));
    timed_requests(&runtime, &mut service, (clients, COUNTED_REQUESTS));
    Ok(())
}

/// Instructions per request of every contender, in a process of its own.
fn instructions(path: Path, clients: u32) -> Result<Vec<f64>> {
    let words = [(path == Path::Deny) as usize, clients as usize].map(|word| word.to_string());
    let counted = |place: usize| {
        let words = [CHILD, &place.to_string(), &words[0], &words[1]];
        let all = instructions::counted("timed_requests", &words)?;
        Ok(all as f64 / COUNTED_REQUESTS as f64)
    };
    (0..CONTENDERS.len()).map(counted).collect()
}

fn runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.map_err(|error| error.to_string())
}

/// Sends requests, and returns how many passed. Callgrind counts in here only.
#[inline(never)]
fn timed_requests(
    runtime: &Runtime,
    service: &mut Router,
    (clients, requests): (u32, usize),
) -> usize {
    runtime.block_on(run(service, clients, requests))
}

/// Prints a table per path and number of clients.
pub(crate) fn print(args: &Args) -> Result<()> {
    let runtime = runtime()?;
    let requests = (args.ops / CHECKS_PER_REQUEST).max(1_000);
    println!("### What a limit adds to a request\n");
    println!(
        "{} of {} interleaved rounds of {requests} requests, in ns, instructions (callgrind) and \
         calls of the allocator per request.\n",
        args.pick.title(),
        args.rounds
    );
    for (path, clients) in [(Path::Allow, 1), (Path::Allow, 10_000), (Path::Deny, 1)] {
        let name = format!("{path:?}, clients: {clients}");
        println!("{name}\n");
        let mut table = Markdown::new(&["service", "headers"]);
        for title in ["ns", "added", "instructions", "added", "allocations", "added"] {
            table.column(title);
        }
        table.print_head();
        let rows = measured(args, &runtime, (path, clients), requests)?;
        let counted = instructions(path, clients)?;
        for (place, (service, headers, _)) in CONTENDERS.iter().enumerate() {
            let (ns, calls) = rows[place];
            let figures = [(ns, rows[0].0), (counted[place], counted[0]), (calls, rows[0].1)];
            let mut row = vec![(*service).to_owned(), (*headers).to_owned()];
            for (figure, bare) in figures {
                row.extend([format!("{figure:.0}"), format!("{:.0}", figure - bare)]);
            }
            table.print_row(&row);
        }
        println!();
    }
    Ok(())
}

/// Nanoseconds and allocations per request of every contender.
fn measured(
    args: &Args,
    runtime: &Runtime,
    (path, clients): (Path, u32),
    requests: usize,
) -> Result<Vec<(f64, f64)>> {
    let mut services: Vec<Router> =
        CONTENDERS.iter().map(|contender| served(contender, path, clients)).collect();
    for service in &mut services {
        // Every client is known before the clock starts; on the path of denials it has spent its
        // unit.
        runtime.block_on(run(service, clients, clients as usize));
    }
    let mut samples = vec![Vec::new(); services.len()];
    let mut calls = vec![0.0; services.len()];
    for round in 0..args.rounds {
        for place in measure::rotation(services.len(), round) {
            let service = &mut services[place];
            let start = Instant::now();
            let passed = timed_requests(runtime, service, (clients, requests));
            samples[place].push(start.elapsed().as_secs_f64() * 1e9 / requests as f64);
            let expected = if path == Path::Allow || place < 2 { requests } else { 0 };
            if passed != expected {
                return Err(format!("{}: {passed} of {requests} passed", CONTENDERS[place].0));
            }
            let (_, heap) = count(|| timed_requests(runtime, service, (clients, requests)));
            calls[place] = heap.calls as f64 / requests as f64;
        }
    }
    let times = samples.into_iter().map(|samples| args.pick.of(samples));
    Ok(times.zip(calls).collect())
}

/// Sends requests of all clients in turn, and returns how many passed.
async fn run(service: &mut Router, clients: u32, requests: usize) -> usize {
    let mut passed = 0;
    let mut client = 0;
    for _ in 0..requests {
        let mut request = Request::new(Body::empty());
        let address = Ipv4Addr::from_bits(0x0A00_0000 + client);
        client = (client + 1) % clients;
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 4_711))));
        let Ok(response) = black_box(service.call(request).await);
        passed += usize::from(response.status() == StatusCode::OK);
    }
    passed
}

fn app() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

/// `keys` is the bound of the table: the number of clients, as an application would set it, or the
/// default, whose lines are spread over 96 MB of addresses.
fn tollgate(path: Path, keys: u32, dialects: &[Dialect]) -> Router {
    let quota = Quota::per_hour(1);
    let gcra = match path {
        Path::Allow => Gcra::with_burst(Quota::per_second(1_000), path.burst().into()),
        Path::Deny => Gcra::with_burst(quota, path.burst().into()),
    };
    let limit = gcra.and_then(|gcra| Limit::new("per-client", gcra));
    let client = ClientIp::peer::<ConnectInfo<SocketAddr>>();
    let layer = limit.and_then(|limit| {
        let store = Memory::builder().max_keys(keys.max(FEWEST_KEYS) as usize).build()?;
        let layer = RateLimitLayer::builder(Limiter::new(store)).limit(limit, client);
        layer.headers(dialects.iter().copied()).build()
    });
    app().layer(layer.expect("the quota is accepted"))
}

fn period(path: Path) -> Duration {
    match path {
        Path::Allow => Duration::from_millis(1),
        Path::Deny => Duration::from_secs(3_600),
    }
}

fn governor(path: Path, _: u32) -> Router {
    let mut config = GovernorConfigBuilder::default();
    let config = config.period(period(path)).burst_size(path.burst()).finish();
    app().layer(GovernorLayer::new(config.expect("the quota is accepted")))
}

fn governor_with_headers(path: Path, _: u32) -> Router {
    let mut config = GovernorConfigBuilder::default();
    let config = config.period(period(path)).burst_size(path.burst()).use_headers().finish();
    app().layer(GovernorLayer::new(config.expect("the quota is accepted")))
}

//! Messages of the gRPC API, through all services.

use std::cell::LazyCell;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use tonic::{Code, Status};

use super::{Fixture, choose};
use crate::grpc::{Health, Served, answer, services};

/// Seeds begin with places in this list: a new one comes last.
const METHODS: [&str; 12] = [
    "/tollgate.v1.RateLimiter/Acquire",
    "/tollgate.v1.RateLimiter/AcquireMany",
    "/tollgate.v1.RateLimiter/Peek",
    "/tollgate.v1.RateLimiter/Forecast",
    "/tollgate.v1.RateLimiter/Refund",
    "/tollgate.v1.RateLimiter/Reset",
    "/ratelimit.v1.RateLimiter/Acquire",
    "/grpc.health.v1.Health/Check",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/tollgate.v1.RateLimiter/Settle",
    "/tollgate.v1.RateLimiter/Limits",
    "/tollgate.v1.RateLimiter/AcquireStream",
];

/// Whether the bytes are a message, or a stream of frames that may be broken.
const FRAMED: [bool; 4] = [true, true, true, false];

/// Why tonic answers bytes that are no frame with a code for failures of the server.
const UNREADABLE: [&str; 5] =
    ["decod", "decompress", "protocol error", "Missing request message", "Unexpected EOF"];

struct Grpc {
    fixture: Fixture,
    served: Arc<Served>,
    /// Streams end with it.
    _health: Health,
}

thread_local! {
    static GRPC: LazyCell<Grpc> = LazyCell::new(|| {
        let fixture = Fixture::new();
        let services = fixture.runtime.block_on(services(Arc::clone(&fixture.app)));
        #[expect(clippy::expect_used, reason = "a target needs its server")]
        let (services, health) = services.expect("the descriptors are valid");
        let client = Arc::clone(&fixture.client);
        let served = Arc::new(Served { services, client });
        Grpc { fixture, served, _health: health }
    });
}

/// The first byte chooses a method, the second whether the rest is a message or the bytes of a
/// stream.
///
/// # Panics
/// When the status is a failure of the server.
pub fn grpc(bytes: &[u8]) {
    let Some((method, rest)) = choose(bytes, &METHODS) else { return };
    let Some((framed, message)) = choose(rest, &FRAMED) else { return };
    let mut body = Vec::with_capacity(message.len() + 5);
    if framed {
        body.push(0);
        body.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    }
    body.extend(message);
    GRPC.with(|grpc| {
        let request = Request::post(method).header(CONTENT_TYPE, "application/grpc");
        let request = request.body(Full::new(Bytes::from(body))).unwrap_or_default();
        let status = grpc.fixture.run(async {
            let Ok(response) = answer(&grpc.served, request).await;
            let status = Status::from_header_map(response.headers());
            let body = response.into_body().collect().await;
            let trailers = body.ok().and_then(|body| body.trailers().cloned());
            status.or_else(|| Status::from_header_map(&trailers?))
        });
        let Some(status) = status else { return };
        let failed = match status.code() {
            Code::Internal => !UNREADABLE.iter().any(|why| status.message().contains(why)),
            Code::Unknown | Code::DataLoss | Code::Unavailable => true,
            _ => false,
        };
        assert!(!failed, "{method}: {status:?}");
    });
}

//! The standard health service: serving until shutdown, which also ends all streams.

use tokio::sync::watch;
use tollgate_proto::ratelimit_v1::rate_limiter_server as ratelimit_v1;
use tollgate_proto::tollgate_v1::rate_limiter_server as tollgate_v1;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The server as a whole, and its services.
const NAMES: [&str; 3] = ["", tollgate_v1::SERVICE_NAME, ratelimit_v1::SERVICE_NAME];

/// Ends health watches and streams of requests at shutdown.
#[derive(Debug)]
pub(crate) struct Health {
    reporter: HealthReporter,
    /// Streams end when it is dropped.
    _streams: watch::Sender<()>,
}

impl Health {
    /// Reports every service as serving.
    pub(super) async fn serving(reporter: HealthReporter, streams: watch::Sender<()>) -> Self {
        for name in NAMES {
            reporter.set_service_status(name, ServingStatus::Serving).await;
        }
        Self { reporter, _streams: streams }
    }

    /// Reports every service as not serving, and ends all streams: the shutdown would wait for a
    /// stream that never ends.
    pub(crate) async fn shut_down(mut self) {
        for name in NAMES {
            self.reporter.set_service_status(name, ServingStatus::NotServing).await;
            self.reporter.clear_service_status(name).await;
        }
    }
}

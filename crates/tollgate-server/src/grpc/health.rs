//! What the standard health service says: serving, until the end, which is also the end of all streams.

use tokio::sync::watch;
use tollgate_proto::ratelimit_v1::rate_limiter_server as ratelimit_v1;
use tollgate_proto::tollgate_v1::rate_limiter_server as tollgate_v1;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The server as a whole, and its services.
const NAMES: [&str; 3] = ["", tollgate_v1::SERVICE_NAME, ratelimit_v1::SERVICE_NAME];

/// Tells those who watch, and those who have a stream of requests open.
#[derive(Debug)]
pub(crate) struct Health {
    reporter: HealthReporter,
    /// Gone at the end.
    _streams: watch::Sender<()>,
}

impl Health {
    /// Everything serves.
    pub(super) async fn serving(reporter: HealthReporter, streams: watch::Sender<()>) -> Self {
        for name in NAMES {
            reporter.set_service_status(name, ServingStatus::Serving).await;
        }
        Self { reporter, _streams: streams }
    }

    /// Nothing serves any more, who watches has heard all there will be, and no stream has more
    /// requests: one that never ended would be waited for.
    pub(crate) async fn end(mut self) {
        for name in NAMES {
            self.reporter.set_service_status(name, ServingStatus::NotServing).await;
            self.reporter.clear_service_status(name).await;
        }
    }
}

//! What the standard health service says: serving, until the end.

use tollgate_proto::ratelimit_v1::rate_limiter_server as ratelimit_v1;
use tollgate_proto::tollgate_v1::rate_limiter_server as tollgate_v1;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The server as a whole, and its services.
const NAMES: [&str; 3] = ["", tollgate_v1::SERVICE_NAME, ratelimit_v1::SERVICE_NAME];

/// Tells those who watch.
#[derive(Debug)]
pub(crate) struct Health(HealthReporter);

impl Health {
    /// Everything serves.
    pub(super) async fn serving(reporter: HealthReporter) -> Self {
        for name in NAMES {
            reporter.set_service_status(name, ServingStatus::Serving).await;
        }
        Self(reporter)
    }

    /// Nothing serves any more, and who watches has heard all there will be: a stream that never
    /// ended would be waited for.
    pub(crate) async fn end(mut self) {
        for name in NAMES {
            self.0.set_service_status(name, ServingStatus::NotServing).await;
            self.0.clear_service_status(name).await;
        }
    }
}

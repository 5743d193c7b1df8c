//! The durations of requests, without a search by their label: that costs as much as a decision.

use std::sync::OnceLock;
use std::time::Duration;

use super::sharded::Histogram;

/// The protocols whose requests are timed.
const PROTOCOLS: [&str; 3] = ["http", "grpc", "resp"];

/// The histogram of each protocol that had requests.
#[derive(Debug, Default)]
pub(super) struct ProtocolTimes([OnceLock<Histogram>; PROTOCOLS.len()]);

impl ProtocolTimes {
    /// Records the duration of a request; `find` returns the histogram of a protocol that is new.
    pub(super) fn observe(&self, protocol: &str, took: Duration, find: impl Fn() -> Histogram) {
        let place = PROTOCOLS.iter().position(|known| *known == protocol);
        match place.and_then(|place| self.0.get(place)) {
            Some(histogram) => histogram.get_or_init(find).observe(took),
            None => find().observe(took),
        }
    }
}

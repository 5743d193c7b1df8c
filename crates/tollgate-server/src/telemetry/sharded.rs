//! Counters and histograms of which each thread updates a part of its own: threads that count the
//! same thing at once must not wait for each other's cache lines. Reading adds the parts up.

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// The most parts of a metric.
const PARTS_MAX: usize = 32;
const NANOS_PER_SECOND: f64 = 1e9;

/// The parts of a metric: one for each core, so that there is one for each thread that serves.
static PARTS: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(1, NonZero::get).min(PARTS_MAX));

/// The number of the next thread that counts.
static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static PART: usize = NEXT_THREAD.fetch_add(1, Relaxed) % *PARTS;
}

/// A value per thread, each on a cache line of its own (two, as processors fetch them).
#[derive(Debug)]
#[repr(align(128))]
struct Part<T>(T);

fn parts<T>(one: impl Fn() -> T) -> Arc<[Part<T>]> {
    (0..*PARTS).map(|_| Part(one())).collect()
}

/// The part of this thread.
fn own<T>(parts: &[Part<T>]) -> Option<&T> {
    parts.get(PART.with(|part| *part)).map(|part| &part.0)
}

/// A counter.
#[derive(Clone, Debug)]
pub(super) struct Counter(Arc<[Part<AtomicU64>]>);

impl Counter {
    pub(super) fn inc(&self) {
        self.inc_by(1);
    }

    pub(super) fn inc_by(&self, units: u64) {
        if let Some(own) = own(&self.0) {
            own.fetch_add(units, Relaxed);
        }
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|part| part.0.load(Relaxed)).sum()
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self(parts(AtomicU64::default))
    }
}

impl TypedMetric for Counter {
    const TYPE: MetricType = MetricType::Counter;
}

impl EncodeMetric for Counter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        encoder.encode_counter::<NoLabelSet, _, u64>(&self.total(), None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// A histogram of durations, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    parts: Arc<[Part<Observed>]>,
}

/// What one thread has observed.
#[derive(Debug)]
struct Observed {
    nanos: AtomicU64,
    /// By the first bound that is no less; the last is for those beyond all bounds.
    counts: Box<[AtomicU64]>,
}

impl Histogram {
    /// With these bounds, in ascending order.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let observed = || Observed {
            nanos: AtomicU64::new(0),
            counts: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
        };
        Self { bounds, parts: parts(observed) }
    }

    pub(super) fn observe(&self, took: Duration) {
        let Some(own) = own(&self.parts) else { return };
        let seconds = took.as_secs_f64();
        let within = self.bounds.iter().position(|bound| seconds <= *bound);
        if let Some(count) = own.counts.get(within.unwrap_or(self.bounds.len())) {
            count.fetch_add(1, Relaxed);
        }
        own.nanos.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let total = |of: &dyn Fn(&Observed) -> u64| -> u64 {
            self.parts.iter().map(|part| of(&part.0)).sum()
        };
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let count = |place| {
            total(&|one| one.counts.get(place).map_or(0, |count: &AtomicU64| count.load(Relaxed)))
        };
        let buckets: Vec<(f64, u64)> =
            bounds.enumerate().map(|(place, bound)| (bound, count(place))).collect();
        let observed = buckets.iter().map(|(_, count)| count).sum();
        let seconds = seconds(total(&|one| one.nanos.load(Relaxed)));
        encoder.encode_histogram::<NoLabelSet>(seconds, observed, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum of durations for operators")]
fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NANOS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use std::thread;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    /// The text of a metric after each of several threads has updated it.
    fn text<M: EncodeMetric + TypedMetric + Clone + Send + Sync + fmt::Debug + 'static>(
        metric: &M,
        update: impl Fn(&M) + Sync,
    ) -> String {
        thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| update(metric));
            }
        });
        let mut registry = Registry::default();
        registry.register("m", "m", metric.clone());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn what_threads_count_is_added_up() {
        let text = text(&Counter::default(), |counter| (0..100).for_each(|_| counter.inc()));
        assert!(text.contains("m_total 500\n"), "{text}");
    }

    #[test]
    fn durations_are_counted_within_their_bounds() {
        let text = text(&Histogram::new(&[0.001, 0.1]), |histogram| {
            for millis in [1, 2, 100, 2_000] {
                histogram.observe(Duration::from_millis(millis));
            }
        });
        for line in [
            "m_sum 10.515\n",
            "m_count 20\n",
            "m_bucket{le=\"0.001\"} 5\n",
            "m_bucket{le=\"0.1\"} 15\n",
            "m_bucket{le=\"+Inf\"} 20\n",
        ] {
            assert!(text.contains(line), "{line} {text}");
        }
    }
}

//! Many concurrent callers, each of which calls again after its reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::contender::Contender;
use super::options::Options;
use crate::Result;

/// A warm-up that is not counted: connections are made, plans and caches are filled.
const WARM_UP: Duration = Duration::from_millis(500);

/// The keys of the calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    Distinct(u64),
    Hot,
}

impl Spread {
    pub(crate) fn title(self) -> String {
        match self {
            Self::Distinct(keys) => format!("{keys} keys, at random"),
            Self::Hot => "one hot key".into(),
        }
    }

    fn key(self, random: u64) -> String {
        match self {
            Self::Distinct(keys) => format!("user:{:010}", random % keys),
            Self::Hot => "user:hot".into(),
        }
    }
}

/// The result of one run.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    pub(crate) p50: u32,
    pub(crate) p95: u32,
    pub(crate) p99: u32,
    pub(crate) retries_each: f64,
    pub(crate) failed: u64,
}

/// Runs the callers.
pub(crate) async fn run(contender: Contender, spread: Spread, options: &Options) -> Result<Sample> {
    let contender = Arc::new(contender);
    let start = Instant::now() + WARM_UP;
    let end = start + options.length;
    let mut tasks = Vec::new();
    for caller in 0..options.callers {
        let contender = Arc::clone(&contender);
        let mut random = Random(u64::try_from(caller).unwrap_or_default());
        tasks.push(tokio::spawn(async move {
            let mut seen = Seen::default();
            loop {
                let key = spread.key(random.next());
                let id = (u128::from(random.next()) << 64) | u128::from(random.next());
                let called = Instant::now();
                if called >= end {
                    return seen;
                }
                let answer = contender.decide(&key, id).await;
                let answered = Instant::now();
                if called >= start && answered <= end {
                    seen.add(answer, answered - called);
                }
            }
        }));
    }
    let mut all = Seen::default();
    for task in tasks {
        let seen = task.await.map_err(|error| error.to_string())?;
        all.waits.extend(seen.waits);
        all.retries += seen.retries;
        all.failed += seen.failed;
    }
    contender.close().await;
    Ok(all.sample(options.length))
}

#[derive(Debug, Default)]
struct Seen {
    waits: Vec<u32>,
    retries: u64,
    failed: u64,
}

impl Seen {
    fn add(&mut self, answer: Option<u32>, wait: Duration) {
        match answer {
            Some(retries) => {
                self.waits.push(u32::try_from(wait.as_micros()).unwrap_or(u32::MAX));
                self.retries += u64::from(retries);
            }
            None => self.failed += 1,
        }
    }

    fn sample(mut self, length: Duration) -> Sample {
        self.waits.sort_unstable();
        let count = self.waits.len();
        let at = |percent: usize| {
            let index = (count * percent / 100).min(count.saturating_sub(1));
            self.waits.get(index).copied().unwrap_or(0)
        };
        #[expect(clippy::cast_precision_loss, reason = "a report of a few digits")]
        let (decided, retries) = (count as f64, self.retries as f64);
        Sample {
            per_second: decided / length.as_secs_f64(),
            p50: at(50),
            p95: at(95),
            p99: at(99),
            retries_each: retries / decided.max(1.0),
            failed: self.failed,
        }
    }
}

/// The run in the middle, by decisions per second.
pub(crate) fn median(samples: &[Sample]) -> Option<Sample> {
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    sorted.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
    sorted.get(sorted.len() / 2).map(|sample| (*sample).clone())
}

/// SplitMix64, seeded with the number of the caller: the same keys for every contender.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0.wrapping_mul(0xD134_2543_DE82_EF95);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

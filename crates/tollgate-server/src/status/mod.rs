//! The status of this server: what is decided, what the keys do, whether the store is well, and
//! what changed. `GET /v1/status` answers it; `GET /v1/events` sends it every second; the page
//! shows it. A search by key is beside it (`inspect`).

mod changes;
mod events;
mod history;
mod inspect;
mod json;
mod reading;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tollgate::clock::{Clock, SystemClock};
use tollgate::store::Store;
use tollgate::{Limit, Micros};
use tollgate_service::auth::TokenHash;
use tollgate_service::policy::AD_HOC_POLICY;

use self::history::{History, SAMPLE_SECONDS};
use self::json::{
    ChangeJson, DenialJson, DeniedByJson, KeyJson, MemoryJson, PolicyJson, SampleJson, StatusJson,
    StoreJson, TopJson,
};
use self::reading::{Reading, Totals};
use crate::activity::{Counted, PolicyActivity, WINDOW_SECONDS};
use crate::app::App;
use crate::config::Config;
use crate::listen::UnderWay;

pub(crate) use changes::Changes;
pub(crate) use events::Events;
pub(crate) use inspect::inspect;

/// How many keys of a policy are listed, and how many of its denials.
const LISTED: usize = 20;

/// How long a whole status is served, in microseconds: requests for it must not load the server.
const WHOLE_MAX_AGE: Micros = 100_000;

/// What the status needs besides what others count.
#[derive(Debug)]
pub(crate) struct Status {
    store: String,
    started_ms: u64,
    history: Mutex<History>,
    /// The last whole status, and when it was made.
    whole: tokio::sync::Mutex<Option<(Micros, Bytes)>>,
    /// Where statuses are published, until the server runs and takes it.
    publish: Mutex<Option<watch::Sender<Bytes>>>,
    newest: watch::Receiver<Bytes>,
}

impl Status {
    pub(crate) fn new(config: &Config) -> Self {
        let (publish, newest) = watch::channel(Bytes::new());
        let now_ms = SystemClock::new().now() / 1_000;
        let scheme = config.store.split(':').next().unwrap_or_default();
        Self {
            store: scheme.to_owned(),
            started_ms: now_ms,
            history: Mutex::new(History::new(now_ms, Reading::default())),
            whole: tokio::sync::Mutex::new(None),
            publish: Mutex::new(Some(publish)),
            newest,
        }
    }

    /// Nothing panics while it is locked.
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where to publish; once.
    fn publisher(&self) -> Option<watch::Sender<Bytes>> {
        self.publish.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Ends samples and windows, and publishes a status per second while a stream is open. Streams end
/// when the task is aborted.
pub(crate) async fn run(app: Arc<App>) {
    let Some(publish) = app.status.publisher() else { return };
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut was_degraded = false;
    for second in 0_u64.. {
        ticks.tick().await;
        let activity = &app.telemetry.activity;
        activity.second_passed();
        if second.is_multiple_of(WINDOW_SECONDS) {
            activity.window_passed(&app.engine().policies());
        }
        if second > 0 && second.is_multiple_of(SAMPLE_SECONDS) {
            let reading = Reading::of_text(&app.metrics_text());
            let ended = app.status.history().end_sample(app.engine().now_ms_up(), reading);
            was_degraded = note_degraded(&app, was_degraded, ended.degraded());
        }
        // One receiver is that of the status itself.
        if publish.receiver_count() > 1 {
            publish.send_replace(events::event(&status(&app, 1).await));
        }
    }
}

/// Notes when decisions begin and cease to be made without the store.
fn note_degraded(app: &App, before: bool, decisions: u64) -> bool {
    let changes = &app.telemetry.changes;
    match (before, decisions > 0) {
        (false, true) => changes.add("Decisions are made without the store."),
        (true, false) => changes.add("No decision was made without the store for ten seconds."),
        _ => {}
    }
    decisions > 0
}

/// A stream of statuses; the first has the whole history.
pub(crate) async fn events(app: &Arc<App>, token: Option<String>, stream: UnderWay) -> Events {
    let newest = app.status.newest.clone();
    let first = whole(app).await;
    let app = Arc::clone(app);
    let token = token.as_deref().map(TokenHash::of);
    let is_permitted =
        move || app.auth().rights_of(token.as_ref()).is_some_and(|rights| rights.policies.is_all());
    Events::new(first, newest, is_permitted, stream)
}

/// The status with the whole history, as a line of JSON. It is made at most ten times per second;
/// concurrent requests share it.
pub(crate) async fn whole(app: &App) -> Bytes {
    let now = SystemClock::new().now();
    let mut made = app.status.whole.lock().await;
    if let Some((at, whole)) = &*made
        && now.saturating_sub(*at) < WHOLE_MAX_AGE
    {
        return whole.clone();
    }
    let whole = status(app, usize::MAX).await;
    *made = Some((now, whole.clone()));
    whole
}

/// The status with the newest samples, at most this many that have ended and the one under way, as
/// a line of JSON.
async fn status(app: &App, samples: usize) -> Bytes {
    let problem = app.ready().await.err().map(|failure| failure.error.message().to_owned());
    let reading = Reading::of_text(&app.metrics_text());
    let now_ms = app.engine().now_ms_up();
    let changes = app.telemetry.changes.newest_first();
    let status = StatusJson {
        version: env!("CARGO_PKG_VERSION"),
        now_ms,
        started_ms: app.status.started_ms,
        resident_bytes: Some(reading.resident_bytes).filter(|bytes| *bytes > 0),
        keys_are_hashed: !app.telemetry.redaction.load().is_plain(),
        store: StoreJson {
            kind: app.status.store.clone(),
            in_process: app.engine().in_process(),
            problem,
            calls: reading.calls.count(),
            calls_failed: reading.calls_failed,
            breaker_rejections: reading.breaker_rejections,
            round_trips: reading.round_trips,
        },
        policies: policies(app, &reading),
        changes: changes
            .into_iter()
            .map(|it| ChangeJson { at_ms: it.at_ms, text: it.text })
            .collect(),
        samples: samples_of(app, samples, now_ms, &reading),
    };
    // Encoding structures of numbers and text does not fail.
    serde_json::to_vec(&status).unwrap_or_default().into()
}

fn samples_of(app: &App, most: usize, now_ms: u64, reading: &Reading) -> Vec<SampleJson> {
    let history = app.status.history();
    let under_way = history.under_way(now_ms, reading);
    history.newest(most).chain([&under_way]).map(SampleJson::from).collect()
}

/// The policies in force, and the limits of requests once there were any.
fn policies(app: &App, reading: &Reading) -> Vec<PolicyJson> {
    let usage = app.engine().limiter().store().usage();
    let in_force = app.engine().policies();
    let totals = |name: &str| reading.policies.get(name).copied().unwrap_or_default();
    let ad_hoc = (AD_HOC_POLICY, vec![in_force.ad_hoc()]);
    let ad_hoc = Some(ad_hoc).filter(|(name, _)| totals(name) != Totals::default());
    let each = in_force.iter().map(|policy| (policy.name().as_str(), policy.limits().collect()));
    let each = each.chain(ad_hoc).map(|(name, limits): (&str, Vec<&Limit>)| {
        let totals = totals(name);
        let mut shown = PolicyJson {
            policy: name.to_owned(),
            allowed: totals.allowed,
            denied: totals.denied,
            degraded: totals.degraded,
            errors: totals.errors,
            memory: MemoryJson::of(&usage, &limits),
            ..PolicyJson::default()
        };
        app.telemetry.activity.of(name, |activity| show_keys(app, activity, &mut shown));
        shown
    });
    each.collect()
}

/// Adds what the keys of a policy did, as far as operators may see it.
fn show_keys(app: &App, activity: &PolicyActivity, shown: &mut PolicyJson) {
    let redaction = &app.telemetry.redaction.load();
    let (denied, spent) = app.telemetry.activity.intervals();
    let top = |sampled_one_in, keys: Vec<(&str, Counted)>| TopJson {
        sampled_one_in,
        keys: keys.into_iter().map(|one| KeyJson::new(one, redaction)).collect(),
    };
    let by = |(limit, denied): (&str, u64)| DeniedByJson { limit: limit.to_owned(), denied };
    shown.denied_by = activity.denied_by().map(by).collect();
    shown.throttled = top(denied, activity.throttled(LISTED));
    shown.spenders = top(spent, activity.spenders(LISTED));
    let denials = activity.denials().take(LISTED);
    shown.denials = denials.map(|denial| DenialJson::new(denial, redaction)).collect();
}

//! Batches of which a part meets silence: the rest keeps the answers that are there when the time
//! is up.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{
    Charge, Decision, Limit, Limiter, ManualClock, OutageMode, Quota, Result, Rule, algorithm as a,
};
use tollgate_redis::Redis;
use tollgate_test_servers::{FaultProxy, Mode, Redis as Server, RedisCluster};

use super::load::SOON;
use super::{run, store};

const DAY: Duration = Duration::from_secs(86_400);
/// For a busy machine.
const TIMEOUTS: &str = "connect_timeout_ms=10000&reply_timeout_ms=60000";

fn one_unit(policy: &str, rule: Rule) -> Limit {
    let limit = Limit::with_rule(policy, rule).unwrap().with_prefix("silence").unwrap();
    limit.on_outage(OutageMode::Open)
}

fn gcra(policy: &str) -> Limit {
    one_unit(policy, Rule::new(a::Gcra::new(Quota::new(1, DAY)).unwrap()))
}

fn limiter(store: &Redis) -> (Limiter<Redis>, ManualClock) {
    let clock = ManualClock::at(0);
    (Limiter::with_clock(store.clone(), clock.clone()).build(), clock)
}

type Batch<'a> = Pin<Box<dyn Future<Output = Vec<Result<Decision>>> + Send + 'a>>;

async fn is_pending(batch: &mut Batch<'_>) -> bool {
    poll_fn(|context| Poll::Ready(batch.as_mut().poll(context).is_pending())).await
}

/// The answers when the deadline expires.
async fn answers_of(mut batch: Batch<'_>, clock: &ManualClock) -> Vec<&'static str> {
    clock.advance(Duration::from_secs(60));
    let polled = poll_fn(|context| Poll::Ready(batch.as_mut().poll(context))).await;
    let Poll::Ready(answers) = polled else { panic!("it goes on when no time is left") };
    let codes = answers.into_iter().map(|answer| match answer {
        Ok(decision) => decision.degraded.map_or(decision.verdict.as_str(), OutageMode::as_str),
        Err(error) => error.code().as_str(),
    });
    codes.collect()
}

/// A subject whose key this node serves.
fn subject_on(cluster: &RedisCluster, node: usize, limit: &Limit) -> String {
    let owner = |subject: &str| cluster.owner_of_key(&limit.key(subject).to_text()).unwrap();
    let mut subjects = (0..1_000).map(|subject| subject.to_string());
    subjects.find(|subject| owner(subject) == node).unwrap()
}

/// Polls until replies of this server were lost.
async fn wait_for_silence(batch: &mut Batch<'_>, proxy: &FaultProxy) {
    let from = Instant::now();
    while proxy.traffic().lost_to_client_bytes == 0 {
        assert!(from.elapsed() < SOON, "the server was not asked");
        assert!(is_pending(batch).await, "the server was not silent");
        tokio::task::yield_now().await;
    }
}

/// Waits until the server is known to have answered what was sent to it before.
async fn answered(store: &Redis, charge: Charge<'_>) {
    // One connection to each node: replies come in order.
    store.load(&[charge], CallContext::store_clock()).await.unwrap();
}

/// Two nodes, and a subject on each. All is spent, so only an outage mode admits.
#[test]
fn a_silent_node_does_not_cost_others_their_answers() {
    let cluster = RedisCluster::start(2).unwrap();
    let proxies = cluster.behind_proxies().unwrap();
    let store = store(&format!("redis-cluster://{}?{TIMEOUTS}", proxies[0].addr()));
    let limit = gcra("node");
    let [silent, healthy] = [0, 1].map(|node| subject_on(&cluster, node, &limit));
    let [silent, healthy] = [limit.charge(&silent), limit.charge(&healthy)];
    run(async {
        let (limiter, _) = limiter(&store);
        for decision in limiter.check_batch(&[silent, healthy]).await {
            assert!(decision.unwrap().is_allowed());
        }
    });
    // Bytes wait on their way: the connection stays, and nothing comes.
    proxies[0].set(Mode::Hold).unwrap();
    let orders = [
        (vec![silent, healthy, silent], ["open", "denied", "open"]),
        (vec![healthy, silent, healthy], ["denied", "open", "denied"]),
    ];
    for (charges, expected) in orders {
        run(async {
            let (limiter, clock) = limiter(&store);
            let mut batch: Batch<'_> = Box::pin(limiter.check_batch(&charges));
            assert!(is_pending(&mut batch).await);
            answered(&store, healthy).await;
            assert!(is_pending(&mut batch).await, "the silent node has answered");
            assert_eq!(answers_of(batch, &clock).await, expected);
        });
    }
}

/// Three keys of a slot that is halfway between two nodes share a call until they are sent one by
/// one. Then the node to which one of them has moved is silent.
#[test]
fn answers_are_not_lost_while_keys_are_sent_one_by_one() {
    let cluster = RedisCluster::start(2).unwrap();
    let proxies = cluster.behind_proxies().unwrap();
    let store = store(&format!("redis-cluster://{}?{TIMEOUTS}", proxies[0].addr()));
    let [one, two, three, node] = ["one", "two", "three", "node"].map(gcra);
    let slot = cluster.slot_of_key(&one.key("a").to_text()).unwrap();
    let source = cluster.owner(slot).unwrap();
    let [stays, target] = [source, 1 - source].map(|owner| subject_on(&cluster, owner, &node));
    let halfway = [one.charge("a"), two.charge("a"), three.charge("a"), node.charge(&stays)];
    run(async {
        let (limiter, clock) = limiter(&store);
        // All is spent, and both nodes know the script.
        let before = [&halfway[..], &[node.charge(&target)]].concat();
        for decision in limiter.check_batch(&before).await {
            assert!(decision.unwrap().is_allowed());
        }
        let mut moving = cluster.begin_move(slot, 1 - source).unwrap();
        assert_eq!(moving.move_keys(1).unwrap(), 1);
        proxies[1 - source].set(Mode::DropReplies).unwrap();
        let mut batch: Batch<'_> = Box::pin(limiter.check_batch(&halfway));
        wait_for_silence(&mut batch, &proxies[1 - source]).await;
        let mut codes = answers_of(batch, &clock).await;
        assert_eq!(codes.pop(), Some("denied"), "its slot stays");
        codes.sort_unstable();
        assert_eq!(codes, ["denied", "denied", "open"]);
    });
}

/// The server knows one script and not the other, and is silent when the other one is loaded.
#[test]
fn an_answer_is_not_lost_while_another_script_is_sent() {
    let redis = Server::start().unwrap();
    let proxy = FaultProxy::counting(redis.addr(), "$4\r\nEVAL\r\n").unwrap();
    let store = store(&format!("redis://{}?{TIMEOUTS}", proxy.addr()));
    let known = gcra("known");
    let window = a::FixedWindow::new(Quota::new(1, DAY), a::Anchor::Epoch).unwrap();
    let new = one_unit("new", Rule::new(window));
    let charges = [known.charge("a"), known.charge("b"), new.charge("a")];
    run(async {
        let (limiter, clock) = limiter(&store);
        for decision in limiter.check_batch(&charges[..2]).await {
            assert!(decision.unwrap().is_allowed());
        }
        proxy.set(Mode::DropCounted).unwrap();
        let mut batch: Batch<'_> = Box::pin(limiter.check_batch(&charges));
        wait_for_silence(&mut batch, &proxy).await;
        assert_eq!(answers_of(batch, &clock).await, ["denied", "denied", "open"]);
    });
    assert_eq!(proxy.traffic().counted, 2, "each script is sent once");
}

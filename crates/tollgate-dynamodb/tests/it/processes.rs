//! Several processes on one key, all at the same moment: exactly the limit, for every algorithm; and
//! how often they race.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tollgate_core::store::{At, Store};
use tollgate_core::{Admission, Code, Limit};
use tollgate_dynamodb::DynamoDb;
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::model::ModelQuota;
use tollgate_testkit::runtime::join_all;
use tollgate_testkit::servers::DynamoDbGateway;
use tollgate_testkit::servers::shared::dynamodb;

use crate::support::{block_on, config, limit, now, table, take};

const PROCESSES: usize = 4;
const CHECKS: usize = 50;
const LIMIT: u64 = 50;
/// Callers of each process under load, and checks of each caller.
const CALLERS: usize = 16;
const TURNS: usize = 25;
const URL: &str = "TOLLGATE_TEST_URL";
const LOAD: &str = "load";
/// Nothing comes back while the test runs.
const MONTH: u64 = 30 * 86_400_000_000;
/// The usual waits, and more attempts than any machine is busy for.
const RETRIES: (u32, Duration, Duration) =
    (200, Duration::from_millis(2), Duration::from_millis(100));

fn limits() -> Vec<(String, Limit)> {
    let quotas = ModelQuota::every_kind(LIMIT, MONTH).into_iter().enumerate();
    let named = quotas.map(|(variant, quota)| {
        let name = format!("{}-{variant}", quota.kind().name());
        let limit = Limit::with_rule(&name, quota.rule().unwrap()).unwrap();
        (name, limit)
    });
    named.collect()
}

/// What each of the processes does, part by part as it is told: says how many of its checks passed.
fn be_one_of_several(url: &str) {
    let (max, base, longest) = RETRIES;
    let patient = config(url).retries(max, base, longest);
    let store = block_on(DynamoDb::open(patient)).unwrap();
    // Connected before the first part begins.
    block_on(store.load(&[limit(1).charge("nobody")], At::Given(now()))).unwrap();
    for (name, limit) in limits() {
        wait_for_the_others();
        let charges = [limit.charge("everybody")];
        let admission = Admission::of(&charges);
        let checks = (0..CHECKS).map(|_| store.admit(&admission, At::Given(now())));
        let passed = block_on(join_all(checks))
            .into_iter()
            .filter(|outcome| decisions_of(&admission, outcome.as_ref().unwrap()).unwrap().admitted)
            .count();
        println!("passed {name} {passed}");
    }
    wait_for_the_others();
    // As a server has it: the usual number of attempts.
    let store = block_on(DynamoDb::open(config(url))).unwrap();
    let (store, many) = (&store, &limit(1 << 30));
    let callers = (0..CALLERS).map(|_| async move {
        let mut passed = 0;
        for _ in 0..TURNS {
            match take(store, many.charge("everybody")).await {
                Ok(is_allowed) => passed += usize::from(is_allowed),
                Err(error) => assert_eq!(error.code(), Code::ConflictExhausted, "{error}"),
            }
        }
        passed
    });
    let passed: usize = block_on(join_all(callers)).into_iter().sum();
    println!("passed {LOAD} {passed}");
}

fn wait_for_the_others() {
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Another process that runs a test of this one.
struct Other {
    child: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(test: &str, url: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "--nocapture", test]).env(URL, url);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, said }
    }

    /// What follows a word in its next line that has it.
    fn says(&mut self, word: &str) -> String {
        loop {
            let line = self.said.next().expect("it ended early").unwrap();
            if let Some((_, rest)) = line.split_once(word) {
                return rest.trim().to_owned();
            }
        }
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
}

/// How many passed in each of the processes, which start at the same moment.
fn passed(others: &mut [Other], part: &str) -> Vec<u64> {
    others.iter_mut().for_each(|other| drop(other.says("ready")));
    others.iter_mut().for_each(Other::go);
    let word = format!("passed {part} ");
    others.iter_mut().map(|other| other.says(&word).parse().unwrap()).collect()
}

/// Runs the test of this name in several other processes, which find the table in their environment.
pub(crate) fn exactly_the_limit_passes(test: &str, server: impl FnOnce() -> Option<SocketAddr>) {
    if let Ok(url) = std::env::var(URL) {
        return be_one_of_several(&url);
    }
    let Some(server) = server() else { return };
    let gateway = DynamoDbGateway::to(server).unwrap();
    let url = gateway.url(&table());
    block_on(DynamoDb::migrate(config(&url))).unwrap();
    let mut others: Vec<Other> = (0..PROCESSES).map(|_| Other::start(test, &url)).collect();
    drop(gateway.take_tally());
    for (name, _) in limits() {
        let counts = passed(&mut others, &name);
        println!("{name}: {counts:?}");
        assert_eq!(counts.iter().sum::<u64>(), LIMIT, "{name}: {counts:?}");
    }
    println!("{test}");
    print_races(&gateway, "at once", PROCESSES * CHECKS * limits().len());
    let counts = passed(&mut others, LOAD);
    let decisions = PROCESSES * CALLERS * TURNS;
    print_races(&gateway, "under load", decisions);
    let answered: u64 = counts.iter().sum();
    println!("{} of {decisions} were not decided", decisions as u64 - answered);
    for other in &mut others {
        assert!(other.child.wait().unwrap().success());
    }
    let store = block_on(DynamoDb::open(config(&url))).unwrap();
    let spent = block_on(crate::support::spent(&store, &limit(1 << 30), "everybody"));
    assert_eq!(spent, answered);
}

fn print_races(gateway: &DynamoDbGateway, how: &str, decisions: usize) {
    let tally = gateway.take_tally();
    println!(
        "{PROCESSES} processes {how}, {decisions} decisions: {} lost races ({:.4} per decision), \
         {} writes, {} reads",
        tally.lost_races,
        tally.lost_races as f64 / decisions as f64,
        tally.writes(),
        tally.reads()
    );
}

#[test]
fn four_processes_admit_exactly() {
    let server = || Some(dynamodb().addr());
    exactly_the_limit_passes("processes::four_processes_admit_exactly", server);
}

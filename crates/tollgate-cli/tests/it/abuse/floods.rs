//! Floods of keys, quotas and request ids, from outside of a policy and inside of it, and what they
//! change for other callers.
//!
//! With `TOLLGATE_ABUSE_SECONDS` (`cargo xtask soak abuse` sets it) three million keys, else a
//! hundredth of them. The memory store: the others keep all keys.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_test_servers::{Error, wait};

use super::bystander::Bystander;
use super::{MEMORY_MAX_KIB, SECONDS, SETTINGS, TOKEN, memory};
use crate::support::Serving;

/// Keys of other callers: those that were charged before the flood, and those that come after it.
const OTHERS: usize = 500;
/// Keys that had spent everything before the flood.
const THROTTLED: usize = 100;
/// How many commands are sent at once.
const PIPELINE: usize = 100;
const KEYS: usize = 3_000_000;
/// More than a policy has quotas.
const QUOTAS: usize = 4_200;
const IDS: usize = 100_000;

/// The limit of `established`, before and after a reload.
const LIMITS: [usize; 2] = [100, 200];

/// Where a flood is for the keys that are looked at.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    /// In another policy.
    Outside,
    /// In their policy, which protects throttled keys or admits new ones.
    Inside(&'static str),
}

struct Flood {
    name: &'static str,
    target: Target,
    /// The number of commands in a long run, and by what it is divided in a short one.
    commands: (usize, usize),
    command: fn(usize) -> String,
}

const FLOODS: [Flood; 5] = [
    Flood {
        name: "CL.THROTTLE, longest period",
        target: Target::Outside,
        commands: (KEYS, 100),
        command: |number| format!("CL.THROTTLE flood-{number} 0 1 2592000\r\n"),
    },
    Flood {
        name: "quotas",
        target: Target::Outside,
        commands: (QUOTAS, 1),
        command: |number| format!("CL.THROTTLE flood-{number} 0 {} 2592000\r\n", 1 + number),
    },
    Flood {
        name: "request ids",
        target: Target::Outside,
        commands: (IDS, 1),
        command: |number| format!("TG.ACQUIRE default flood 1 flood-{number}\r\n"),
    },
    Flood {
        name: "drained keys",
        target: Target::Inside("protect"),
        commands: (KEYS, 100),
        command: |number| format!("TG.ACQUIRE protect flood-{number} 2\r\n"),
    },
    Flood {
        name: "drained keys",
        target: Target::Inside("admit"),
        commands: (KEYS, 100),
        command: |number| format!("TG.ACQUIRE admit flood-{number} 2\r\n"),
    },
];

fn policies(is_long: bool, limit: usize) -> String {
    // A third of the keys of a flood.
    let max_keys = KEYS / 3 / if is_long { 1 } else { 100 };
    format!(
        "{}  established: {{ limit: {limit} per 1d }}
  throttled: {{ limit: 1 per 1d }}
  protect: {{ limit: 2 per 1d, max_keys: {max_keys} }}
  admit: {{ limit: 2 per 1d, max_keys: {max_keys}, when_full: admit }}
",
        super::POLICIES
    )
}

#[test]
fn a_flood_changes_nothing_for_the_keys_of_another_policy() {
    let is_long = std::env::var_os(SECONDS).is_some();
    println!(
        "{:30} {:>8} {:>9} {:>6} {:>12} {:>10} {:>9} {:>8} {:>7}",
        "flood",
        "policy",
        "commands",
        "s",
        "established",
        "newcomers",
        "forgiven",
        "MiB more",
        "p99 us"
    );
    for flood in FLOODS {
        run(&flood, is_long);
    }
}

/// What a million keys take, or ten thousand in a short run.
#[test]
fn a_key_takes_a_hundred_bytes() {
    let is_long = std::env::var_os(SECONDS).is_some();
    let keys = if is_long { 1_000_000 } else { 10_000 };
    let server = Serving::start(&[], &SETTINGS);
    Client::connect(&server).flood(|_| "TG.ACQUIRE default one\r\n".to_owned(), keys);
    let idle = memory(&server, "VmRSS:");
    Client::connect(&server).flood(|number| format!("TG.ACQUIRE default {number}\r\n"), keys);
    let more = memory(&server, "VmRSS:").saturating_sub(idle);
    println!("{more} KiB more than {idle} KiB for {keys} keys");
    let most = keys * 100 / 1_024;
    // A small table has spare lines.
    let spare = if is_long { 0 } else { 4_096 };
    assert!(more < u64::try_from(most).unwrap() + spare, "{more} KiB more than {idle} KiB");
}

fn run(flood: &Flood, is_long: bool) {
    let config = crate::file("floods.yaml", &policies(is_long, LIMITS[0]));
    let server = Serving::start(&["--config", config.to_str().unwrap()], &SETTINGS);
    let (established, throttled, charge) = match flood.target {
        Target::Outside => ("established", "throttled", 1),
        Target::Inside(policy) => (policy, policy, 2),
    };
    let mut client = Client::connect(&server);
    assert_eq!(client.allowed(established, "old", OTHERS, 1), OTHERS);
    assert_eq!(client.allowed(throttled, "drained", THROTTLED, charge), THROTTLED);
    assert_eq!(client.allowed(throttled, "drained", THROTTLED, charge), 0);
    let idle = memory(&server, "VmRSS:");
    let (bystander, is_over) = (Bystander::connect(&server), AtomicBool::new(false));
    let (commands, part) = flood.commands;
    let commands = if is_long { commands } else { commands / part };
    let (latencies, time) = thread::scope(|scope| {
        let ordinary = scope.spawn(|| bystander.run_while(|| !is_over.load(Relaxed)));
        let began = Instant::now();
        Client::connect(&server).flood(flood.command, commands);
        let time = began.elapsed();
        is_over.store(true, Relaxed);
        (ordinary.join().unwrap(), time)
    });
    if flood.name == "quotas" {
        reload(&server, &config, &policies(is_long, LIMITS[1]), &mut client);
    }
    let old = client.allowed(established, "old", OTHERS, 1);
    let new = client.allowed(established, "new", OTHERS, 1);
    let forgiven = client.allowed(throttled, "drained", THROTTLED, charge);
    let more = memory(&server, "VmHWM:").saturating_sub(idle);
    println!(
        "{:30} {:>8} {commands:>9} {:>6.1} {old:>5} of {OTHERS} {new:>4} of {OTHERS} {forgiven:>9} \
         {:>8} {:>7}",
        flood.name,
        match flood.target {
            Target::Outside => "another",
            Target::Inside(policy) => policy,
        },
        time.as_secs_f64(),
        more / 1_024,
        latencies.percentile(99).as_micros()
    );
    assert!(more < 2 * MEMORY_MAX_KIB, "{}: {more} KiB more than idle", flood.name);
    match flood.target {
        Target::Outside => assert_eq!((old, new, forgiven), (OTHERS, OTHERS, 0), "{}", flood.name),
        Target::Inside("admit") => assert_eq!(new, OTHERS, "newcomers"),
        Target::Inside(_) => assert_eq!(forgiven, 0, "throttled keys were forgiven"),
    }
}

/// Replaces the limit of `established`, and waits until the server uses it.
fn reload(server: &Serving, config: &Path, text: &str, client: &mut Client) {
    std::fs::write(config, text).unwrap();
    let pid = server.pid().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let is_used = || match client.answer("TG.ACQUIRE established reload 1\r\n") {
        answer if answer.get(1) == i64::try_from(LIMITS[1]).ok().as_ref() => Ok(()),
        answer => Err(Error::new(format!("{answer:?}"))),
    };
    wait::until_ok(Duration::from_secs(60), is_used).unwrap();
}

/// A client of the RESP listener.
struct Client {
    stream: BufReader<TcpStream>,
    /// How often it has asked for all keys.
    asked: usize,
}

impl Client {
    fn connect(server: &Serving) -> Self {
        let mut stream = TcpStream::connect(server.at("RESP")).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(format!("AUTH {TOKEN}\r\n").as_bytes()).unwrap();
        let mut client = Self { stream: BufReader::new(stream), asked: 0 };
        assert_eq!(client.line(), "+OK");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(
            self.stream.read_line(&mut line).unwrap() > 0,
            "the server has closed the connection"
        );
        line.trim_end().to_owned()
    }

    /// The numbers of the next answer, which must be an array; a receipt may be among them.
    fn read(&mut self) -> Vec<i64> {
        let head = self.line();
        let count = head.strip_prefix('*').unwrap_or_else(|| panic!("{head}"));
        let mut numbers = Vec::new();
        for _ in 0..count.parse::<usize>().unwrap() {
            let line = self.line();
            match line.strip_prefix(':') {
                Some(number) => numbers.push(number.parse().unwrap()),
                // A text follows its length, and nothing is as long as -1.
                None if line != "$-1" => drop(self.line()),
                None => {}
            }
        }
        numbers
    }

    fn answer(&mut self, command: &str) -> Vec<i64> {
        self.stream.get_mut().write_all(command.as_bytes()).unwrap();
        self.read()
    }

    /// How many of these keys of a policy pass; each request has an id of its own.
    fn allowed(&mut self, policy: &str, name: &str, keys: usize, cost: usize) -> usize {
        self.asked += 1;
        let asked = self.asked;
        let command =
            |key: usize| format!("TG.ACQUIRE {policy} {name}-{key} {cost} id-{asked}\r\n");
        (0..keys).filter(|key| self.answer(&command(*key)).first() == Some(&1)).count()
    }

    /// Sends commands from a thread, and reads all answers.
    fn flood(mut self, command: fn(usize) -> String, commands: usize) {
        let mut requests = self.stream.get_ref().try_clone().unwrap();
        let sending = thread::spawn(move || {
            let mut numbers = 0..commands;
            while !numbers.is_empty() {
                let some: String = numbers.by_ref().take(PIPELINE).map(command).collect();
                requests.write_all(some.as_bytes()).unwrap();
            }
        });
        for _ in 0..commands {
            self.read();
        }
        sending.join().unwrap();
    }
}

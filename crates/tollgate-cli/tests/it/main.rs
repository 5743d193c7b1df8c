//! The binary `tollgate`.
#![expect(clippy::panic, clippy::unwrap_used, reason = "in a test, a panic is the message")]
#![expect(clippy::print_stdout, reason = "seeds are printed to repeat a failure")]

mod abuse;
mod agreement;
mod bench;
mod caddy;
mod clients;
mod debian;
mod deploy;
mod doctor;
mod dynamodb;
mod faults;
mod files;
mod footprint;
mod full_disk;
mod logs;
mod open_files;
mod reload;
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tollgate_test_servers::{Folder, Redis};

const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

/// Ends a process that a test started, whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn serve_prints_its_listeners_and_a_command_to_try_and_ends_on_a_signal() {
    let any = "127.0.0.1:0";
    let child = Command::new(TOLLGATE)
        .args(["serve", "--http", any, "--grpc", "off", "--resp", any])
        .env_clear()
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut child = Ended(child);
    let stdout = BufReader::new(child.0.stdout.take().unwrap());
    let lines: Vec<String> = stdout.lines().take(7).map(Result::unwrap).collect();
    assert!(lines[0].starts_with("HTTP on 127.0.0.1:"), "{lines:?}");
    assert_eq!(lines[1], "gRPC off");
    assert!(lines[2].starts_with("RESP on 127.0.0.1:"), "{lines:?}");
    assert!(lines[3].contains("limits are per process"), "{lines:?}");
    assert_eq!(lines[4], "In an outage, `open` admits: default");
    let http = lines[0].trim_start_matches("HTTP on ");
    assert_eq!(lines[5], format!("Page: http://{http}/"));
    assert!(lines[6].starts_with("Try: curl http://127.0.0.1:"), "{lines:?}");
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(child.0.wait().unwrap().success());
}

/// A file for one test.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn run(arguments: &[&str]) -> (bool, String, String) {
    let (code, text, error) = exit_of(arguments);
    (code == 0, text, error)
}

/// The exit code, what was printed, and the errors.
fn exit_of(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(TOLLGATE).args(arguments).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn errors_name_the_setting() {
    let cases: [(&[&str], &str); 4] = [
        (&["--http", "nowhere"], "--http"),
        (&["--http", "0.0.0.0:0"], "--http: others can reach this address"),
        (&["--store", "floppy:"], "store"),
        (&["--store", "memory:x"], "store"),
    ];
    for (arguments, field) in cases {
        let (fine, _, error) = run(&[&["serve"], arguments].concat());
        assert!(!fine && error.contains(field), "{arguments:?}: {error}");
    }
}

#[test]
fn the_command_line_is_a_client() {
    let child = Command::new(TOLLGATE)
        .args(["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"])
        .env_clear()
        .env("TOLLGATE_TOKENS", "token-of-a-caller")
        .env("TOLLGATE_ADMIN_TOKENS", "token-of-an-admin")
        .env("DEFAULT_REFILL_RATE", "0.00001")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ended(child);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let listens = lines.find(|line| line.starts_with("HTTP on ")).unwrap();
    let server = format!("http://{}", &listens["HTTP on ".len()..]);
    let request = |words: &[&str], token: &str| {
        run(&[&words[..1], &["--server", &server, "--token", token], &words[1..]].concat())
    };
    let (caller, admin) = ("token-of-a-caller", "token-of-an-admin");
    assert_eq!(request(&["acquire", "k", "--cost", "7"], caller).1, "allowed, 3 of 10 left\n");
    let (fine, text, error) = request(&["peek", "k", "--cost", "4"], caller);
    assert!(!fine && text.starts_with("denied, 3 of 10 left; retry after "), "{text}");
    assert!(text.lines().count() == 1 && error.is_empty(), "a denial is printed once: {error}");
    let (_, json, _) = request(&["peek", "k", "--json"], caller);
    assert!(json.contains("\"remaining\":3"), "{json}");
    let range = ["acquire", "r", "--cost", "2", "--up-to", "99"];
    assert_eq!(request(&range, caller).1, "allowed, 10 granted, 0 of 10 left\n");
    // An estimate of 4, of which 6 were used: settled once.
    let (fine, text, _) = request(&["acquire", "s", "--cost", "4", "--receipt"], caller);
    let receipt = text.rsplit(' ').next().unwrap().trim().to_owned();
    assert!(fine && text.starts_with("allowed, 6 of 10 left\nreceipt "), "{text}");
    for (words, expected) in [
        (vec!["--cost", "6"], "settled: 2 charged, 4 of 10 left\n"),
        (vec!["--limit", "default=6"], "settled before: 2 charged, 4 of 10 left\n"),
    ] {
        let settle = [vec!["settle", &*receipt], words].concat();
        assert_eq!(request(&settle, caller).1, expected);
    }
    let (fine, _, error) = request(&["settle", &receipt, "--cost", "7"], caller);
    assert!(!fine && error.contains("idempotency_conflict"), "{error}");
    let (fine, json, _) = request(&["settle", &receipt, "--cost", "6", "--json"], caller);
    assert!(fine && json.contains("\"replayed\":true"), "{json}");
    let (fine, _, error) = request(&["settle", &receipt, "--limit", "default"], caller);
    assert!(!fine && error.contains("day=12"), "{error}");
    let (fine, _, error) = request(&["reset", "k"], caller);
    assert!(!fine && error.contains("forbidden") && !error.contains(caller), "{error}");
    assert_eq!(request(&["reset", "k"], admin).1, "reset\n");
    assert_eq!(request(&["acquire", "k"], caller).1, "allowed, 9 of 10 left\n");
}

#[test]
fn the_doctor_examines_a_store() {
    let (fine, text, error) = run(&["doctor", "--store", "memory:"]);
    assert!(
        fine && text.contains("30 of 100 concurrent callers passed a limit of 30"),
        "{text}{error}"
    );
    assert!(text.contains("limits in memory are per process"), "{text}");
    assert!(text.ends_with("Verdict: fit for limits.\n"), "{text}");
    let redis = Redis::start().unwrap();
    let slow = format!("{}?connect_timeout_ms=30000&reply_timeout_ms=30000", redis.url());
    let (fine, text, error) = run(&["doctor", "--store", &slow]);
    // A busy machine is slow, and the doctor warns about that; no other warning is accepted.
    let slow = error.lines().skip(1).all(|line| line.starts_with("- a round trip takes "));
    assert!(
        (fine || slow) && text.contains("30 of 100 concurrent callers passed a limit of 30"),
        "{text}{error}"
    );
    assert!(text.contains("Server: redis "), "{text}");
    let evicting = Redis::builder().max_memory(50_000_000, "allkeys-lru").start().unwrap();
    let (fine, _, error) = run(&["doctor", "--store", &evicting.url()]);
    assert!(!fine && error.contains("allkeys-lru"), "{error}");
    let (fine, _, error) = run(&["doctor", "--store", "redis://:pass-word@127.0.0.1:1"]);
    assert!(!fine && !error.contains("pass-word"), "{error}");
}

#[test]
fn a_sqlite_file_is_migrated_examined_and_refused_by_name() {
    let folder = Folder::new("cli").unwrap();
    let path = folder.path().join("limits.db");
    let address = format!("sqlite:{}", path.display());
    let (fine, text, error) = run(&["migrate", "--store", &address]);
    assert!(fine && text.contains("up to date"), "{text}{error}");
    assert!(path.is_file());
    // A URL with a password belongs into the environment, which other users cannot read.
    let elsewhere = folder.path().join("other.db");
    let mut migrate = Command::new(TOLLGATE);
    migrate.arg("migrate").env_clear();
    migrate.env("TOLLGATE_STORE", format!("sqlite:{}", elsewhere.display()));
    assert!(migrate.output().unwrap().status.success() && elsewhere.is_file());
    let help = migrate.arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    assert!(help.contains("TOLLGATE_STORE") && !help.contains("other.db"), "{help}");
    let (fine, text, error) = run(&["doctor", "--store", &address]);
    assert!(text.contains("30 of 100 concurrent callers passed a limit of 30"), "{text}{error}");
    assert!(fine && text.contains("Survives a restart of this process: yes"), "{text}{error}");
    let missing = format!("sqlite:{}", folder.path().join("none").join("limits.db").display());
    let (fine, _, error) = run(&["serve", "--store", &missing]);
    assert!(!fine && error.contains("path"), "{error}");
}

#[test]
fn completions_and_the_manual_of_every_command_are_printed() {
    let (fine, text, _) = run(&["completions", "bash"]);
    assert!(fine && text.contains("doctor"), "{text}");
    let (fine, text, _) = run(&["man"]);
    let folder = Folder::new("man").unwrap();
    let out = folder.path().join("pages");
    assert!(run(&["man", "--out", out.to_str().unwrap()]).0);
    let help = run(&["--help"]).1;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut names = vec!["tollgate".to_owned(), "tollgate-config-show".to_owned()];
    let commands = commands.filter(|name| !name.is_empty() && *name != "help");
    names.extend(commands.map(|name| format!("tollgate-{name}")));
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(fine && text.contains(&format!(".TH {name} 1")), "{name}");
        let page = std::fs::read_to_string(out.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")), "{name}: {page}");
    }
    assert!(text.contains("Exit codes:") && text.contains("cert\\-key"), "{text}");
}

#[test]
fn policies_are_reloaded_on_sighup_and_an_invalid_file_changes_nothing() {
    let policies = file("reload.yaml", "policies: {p: {limit: 1 per 1d}}\n");
    let child = Command::new(TOLLGATE)
        .args(["serve", "--http", "off", "--grpc", "off", "--resp", "127.0.0.1:0", "--config"])
        .arg(&policies)
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ended(child);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let listens = lines.find(|line| line.starts_with("RESP on ")).unwrap();
    let mut client = BufReader::new(TcpStream::connect(&listens["RESP on ".len()..]).unwrap());
    let mut acquire = |key: &str| {
        write!(client.get_mut(), "TG.ACQUIRE p {key}\r\n").unwrap();
        let mut words = String::new();
        client.read_line(&mut words).unwrap();
        assert_eq!(words, "*5\r\n");
        for _ in 0..5 {
            client.read_line(&mut words).unwrap();
        }
        words.split("\r\n").nth(2).unwrap().to_owned()
    };
    assert_eq!(acquire("a"), ":1");
    let mut log = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let pid = child.0.id().to_string();
    for (text, logged, limit) in [
        ("policies: {p: {limit: nonsense}}\n", "policies.p.limit", ":1"),
        ("policies: {p: {limit: 7 per 1d}}\n", "the configuration was reloaded", ":7"),
    ] {
        std::fs::write(&policies, text).unwrap();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        assert!(log.any(|line| line.contains(logged)), "{logged}");
        assert_eq!(acquire(limit), limit);
    }
}

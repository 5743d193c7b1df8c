//! A test process that is killed takes its servers with it; the next one removes its folders.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use tollgate_test_servers::{Folder, PgVersion, Postgres, Redis, Server};

use super::workerd::counter;
use super::{runs, wait_until_gone};

/// Set in the process that is to be killed.
const VICTIM: &str = "TOLLGATE_TEST_VICTIM";
const MARK: &str = "victim's server: ";
const END: &str = "that is all";

#[test]
fn a_killed_process_leaves_no_server_and_its_folder_is_swept() {
    if std::env::var_os(VICTIM).is_some() {
        return run_until_killed();
    }
    let servers = servers_of_a_killed_process();
    assert!(servers.len() > 4, "Redis, PostgreSQL, miniflare and their processes: {servers:?}");
    for (pid, _) in &servers {
        wait_until_gone(*pid);
    }
    for (_, folder) in &servers {
        assert!(folder.is_dir(), "a killed process cannot remove {}", folder.display());
    }
    // The next process sweeps: this one may have done so before the other was killed.
    let next = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphans::a_folder_is_removed_when_it_is_dropped"])
        .output()
        .unwrap();
    assert!(next.status.success(), "{}", String::from_utf8_lossy(&next.stdout));
    for (_, folder) in &servers {
        assert!(!folder.exists(), "{} was not swept", folder.display());
    }
}

#[test]
fn a_folder_is_removed_when_it_is_dropped() {
    let [first, second] = [(); 2].map(|()| Folder::new("folder").unwrap());
    let paths = [first.path().to_owned(), second.path().to_owned()];
    assert!(paths[0] != paths[1] && paths.iter().all(|path| path.is_dir()));
    std::fs::write(first.path().join("file"), "text").unwrap();
    drop(first);
    assert!(!paths[0].exists() && paths[1].is_dir());
}

/// Runs this very test in another process, kills that once its servers run, and returns the ids of
/// their processes and their folders.
fn servers_of_a_killed_process() -> Vec<(u32, PathBuf)> {
    let name = "orphans::a_killed_process_leaves_no_server_and_its_folder_is_swept";
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let reported = lines.skip_while(|line| !line.contains(MARK)).take_while(|line| line != END);
    let reported =
        reported.filter_map(|line| line.split_once(MARK).map(|(_, rest)| rest.to_owned()));
    let servers = reported.map(|line| {
        let (pid, folder) = line.split_once(' ').unwrap();
        (pid.parse().unwrap(), PathBuf::from(folder))
    });
    let servers: Vec<(u32, PathBuf)> = servers.collect();
    let are_running = servers.iter().all(|(pid, _)| runs(*pid));
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(are_running, "{servers:?}");
    servers
}

/// The part of the process that is killed: starts servers, names them, and waits for its end.
fn run_until_killed() {
    let redis = Redis::start().unwrap();
    let postgres = Postgres::start(PgVersion::V15).unwrap();
    // The process that answers this has ended when its client has.
    let processes = "select pid from pg_stat_activity where pid <> pg_backend_pid()";
    let processes = postgres.sql(processes).unwrap();
    let processes = processes.lines().map(|pid| (pid.parse().unwrap(), &postgres as &Server));
    let worker = counter(true);
    // workerd is a child of miniflare.
    let runtime = children(worker.pid()).into_iter().map(|pid| (pid, &worker as &Server));
    let servers =
        [(redis.pid(), &redis as &Server), (postgres.pid(), &postgres), (worker.pid(), &worker)];
    for (pid, server) in servers.into_iter().chain(processes).chain(runtime) {
        println!("{MARK}{pid} {}", server.resources().folder().display());
    }
    println!("{END}");
    loop {
        thread::park();
    }
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<u32> {
    let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &of.to_string()]).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let children: Vec<u32> = listed.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    assert!(!children.is_empty(), "process {of} has no children");
    children
}

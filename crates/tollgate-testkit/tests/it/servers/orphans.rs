//! A test process that is killed takes its servers with it; the next one removes its folders.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use tollgate_testkit::servers::{Folder, RedisCluster};

use super::{runs, wait_until_gone};

/// Set in the process that is to be killed.
const VICTIM: &str = "TOLLGATE_TEST_VICTIM";
const MARK: &str = "victim's server: ";

#[test]
fn a_killed_process_leaves_no_server_and_its_folder_is_swept() {
    if std::env::var_os(VICTIM).is_some() {
        return be_killed();
    }
    let servers = servers_of_a_killed_process();
    assert_eq!(servers.len(), 2);
    for (pid, folder) in &servers {
        wait_until_gone(*pid);
        assert!(folder.is_dir(), "whoever is killed cannot remove {}", folder.display());
    }
    // The next process sweeps: this one may have done so before the other was killed.
    let next = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "servers::orphans::a_folder_is_removed_when_it_is_dropped"])
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

/// Runs this very test in another process, kills that once its servers run, and returns their ids
/// and folders.
fn servers_of_a_killed_process() -> Vec<(u32, PathBuf)> {
    let name = "servers::orphans::a_killed_process_leaves_no_server_and_its_folder_is_swept";
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.filter_map(|line| line.split_once(MARK).map(|(_, rest)| rest.to_owned()));
    let servers = said.take(2).map(|line| {
        let (pid, folder) = line.split_once(' ').unwrap();
        (pid.parse().unwrap(), PathBuf::from(folder))
    });
    let servers: Vec<(u32, PathBuf)> = servers.collect();
    assert!(servers.iter().all(|(pid, _)| runs(*pid)), "{servers:?}");
    victim.kill().unwrap();
    victim.wait().unwrap();
    servers
}

/// The part of the process that is killed: starts servers, names them, and waits for its end.
fn be_killed() {
    let cluster = RedisCluster::start(2).unwrap();
    for node in cluster.nodes() {
        println!("{MARK}{} {}", node.pid(), node.place().folder().display());
    }
    loop {
        thread::park();
    }
}

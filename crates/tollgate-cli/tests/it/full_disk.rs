//! A store whose file may not grow, and a disk without room.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use tollgate_test_servers::Folder;

use crate::TOLLGATE;
use crate::support::Serving;

/// A signal would end the process at the limit of the shell (`ulimit -f`, here 1 MiB). What does
/// not fit is refused, and never admitted as in an outage.
#[test]
fn a_file_at_the_limit_of_the_shell_is_full_and_does_not_end_the_server() {
    let folder = Folder::new("full").unwrap();
    let path = folder.path().join("limits.db");
    let store = format!("sqlite:{}", path.display());
    let server = Serving::start_limited("ulimit -f 2048", &["--store", &store], &[]);
    let mut client = BufReader::new(TcpStream::connect(server.at("RESP")).unwrap());
    let (mut allowed, mut refused) = (0, 0);
    // More than fits, in commits of a hundred.
    for round in 0..60 {
        let keys = (0..100).map(|number| format!("{round:03}{number:0400}"));
        let commands: String = keys.map(|key| format!("TG.ACQUIRE default {key}\r\n")).collect();
        client.get_mut().write_all(commands.as_bytes()).unwrap();
        for _ in 0..100 {
            match line(&mut client).as_str() {
                "*5" => {
                    let numbers = [(); 5].map(|()| line(&mut client));
                    assert_eq!(numbers[0], ":1");
                    allowed += 1;
                }
                error => {
                    assert!(error.starts_with("-FULL "), "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(allowed > 0 && refused > 0, "{allowed} were allowed, {refused} were refused");
    let log = fs::metadata(format!("{}-wal", path.display())).unwrap().len();
    assert!(log > 1_000_000, "the limit was not reached: {log} bytes");
    client.get_mut().write_all(b"PING\r\n").unwrap();
    assert_eq!(line(&mut client), "+PONG");
    drop(client);
    let logged = server.end();
    assert!(!logged.contains("without the store"), "{logged}");
    // Not even its index fits (32 KiB): no outage, at the start either.
    let mut again = Command::new("/bin/sh");
    again.args(["-c", "ulimit -f 32; exec \"$@\"", "sh", TOLLGATE, "serve", "--store", &store]);
    again.args(["--http", "off", "--grpc", "off", "--resp", "127.0.0.1:0"]).env_clear();
    let output = again.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("store_full"), "{error}");
}

/// The same on a disk that is full (ENOSPC), and again when there is room.
#[test]
fn a_disk_without_room_is_full_until_there_is_room() {
    const DISK_BYTES: u64 = 6 << 20;
    let folder = Folder::new("disk").unwrap();
    let store = format!("sqlite:{}", folder.path().join("limits.db").display());
    let disk = (folder.path(), DISK_BYTES);
    // Nothing comes back while the test runs.
    let refill = [("DEFAULT_REFILL_RATE", "0.00001")];
    let server = Serving::start_on_small_disk(disk, &["--store", &store], &refill);
    // The disk as the server sees it.
    let inside = format!("/proc/{}/root{}", server.pid(), folder.path().display());
    let filler = Path::new(&inside).join("filler");
    fs::write(&filler, vec![1; 3 << 20]).unwrap();
    assert!(!folder.path().join("filler").exists(), "it is no disk of its own");
    let mut client = BufReader::new(TcpStream::connect(server.at("RESP")).unwrap());
    let first = key(0, 0);
    assert_eq!(acquire(&mut client, &first), Ok(9));
    let (mut allowed, mut refused) = (0, 0);
    for batch in 1..100 {
        for number in 0..100 {
            match acquire(&mut client, &key(batch, number)) {
                Ok(left) => {
                    assert_eq!(left, 9);
                    allowed += 1;
                }
                Err(error) => {
                    assert!(error.starts_with("-FULL "), "{error}");
                    refused += 1;
                }
            }
        }
        if refused > 200 {
            break;
        }
    }
    println!("{allowed} were allowed, {refused} were refused");
    assert!(allowed > 0 && refused > 200, "{allowed} were allowed, {refused} were refused");
    fs::remove_file(&filler).unwrap();
    assert_eq!(acquire(&mut client, &key(999, 0)), Ok(9), "there is room");
    assert_eq!(acquire(&mut client, &first), Ok(8), "what was charged stays");
    drop(client);
    let logged = server.end();
    assert!(!logged.contains("without the store"), "{logged}");
}

fn key(batch: usize, number: usize) -> String {
    format!("{batch:03}{number:0400}")
}

/// How many units are left of a bucket of ten, or the error.
fn acquire(client: &mut BufReader<TcpStream>, key: &str) -> Result<i64, String> {
    client.get_mut().write_all(format!("TG.ACQUIRE default {key}\r\n").as_bytes()).unwrap();
    let head = line(client);
    if head != "*5" {
        return Err(head);
    }
    let numbers = [(); 5].map(|()| line(client).trim_start_matches(':').parse().unwrap());
    let [1, _, left, ..] = numbers else { return Err(format!("{numbers:?}")) };
    Ok(left)
}

fn line(client: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

//! A store whose file may not grow.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
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

fn line(client: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

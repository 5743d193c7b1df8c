//! A store whose file may not grow.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use tollgate_test_servers::Folder;

use crate::support::Serving;

/// A signal would end the process at the limit of the shell (`ulimit -f`, here 1 MiB).
#[test]
fn a_file_at_the_limit_of_the_shell_does_not_end_the_server() {
    let folder = Folder::new("full").unwrap();
    let path = folder.path().join("limits.db");
    let store = format!("sqlite:{}", path.display());
    let server = Serving::start_limited("ulimit -f 2048", &["--store", &store], &[]);
    let mut client = TcpStream::connect(server.at("RESP")).unwrap();
    // More than fits, in commits of a hundred.
    for round in 0..60 {
        let keys = (0..100).map(|number| format!("{round:03}{number:0400}"));
        let commands: String = keys.map(|key| format!("TG.ACQUIRE default {key}\r\n")).collect();
        client.write_all(commands.as_bytes()).unwrap();
        let mut replies = 0;
        while replies < 100 {
            let mut bytes = [0; 4096];
            let read = client.read(&mut bytes).unwrap();
            assert!(read > 0, "the server closed the connection");
            replies += bytes[..read].iter().filter(|byte| matches!(byte, b'*' | b'-')).count();
        }
    }
    let log = fs::metadata(format!("{}-wal", path.display())).unwrap().len();
    assert!(log > 1_000_000, "the limit was not reached: {log} bytes");
    client.write_all(b"PING\r\n").unwrap();
    let mut pong = [0; 7];
    client.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
    drop(client);
    server.end();
}

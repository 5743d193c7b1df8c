//! The memory of a server with few keys.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use crate::abuse::memory;
use crate::support::Serving;

const KEYS: usize = 10_000;
const PIPELINE: usize = 100;
const MAX_KIB: u64 = 5 * 1_024;

#[test]
fn ten_thousand_keys_take_less_than_five_mebibytes() {
    let server = Serving::start(&[], &[]);
    let mut client = BufReader::new(TcpStream::connect(server.at("RESP")).unwrap());
    // What the connection and the first requests take is no memory of keys.
    acquire(&mut client, |_| 0);
    let before = memory(&server, "VmRSS:");
    acquire(&mut client, |number| number);
    let more = memory(&server, "VmRSS:").saturating_sub(before);
    println!("{more} KiB more than {before} KiB for {KEYS} keys");
    assert!(more < MAX_KIB, "{more} KiB more than {before} KiB");
}

fn acquire(client: &mut BufReader<TcpStream>, key: impl Fn(usize) -> usize) {
    let numbers: Vec<usize> = (0..KEYS).map(key).collect();
    let mut line = String::new();
    for some in numbers.chunks(PIPELINE) {
        let commands = some.iter().map(|number| format!("TG.ACQUIRE default user:{number}\r\n"));
        client.get_mut().write_all(commands.collect::<String>().as_bytes()).unwrap();
        for _ in 0..6 * some.len() {
            line.clear();
            client.read_line(&mut line).unwrap();
            assert!(matches!(line.as_bytes().first(), Some(b'*' | b':')), "{line}");
        }
    }
}

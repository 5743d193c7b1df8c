//! The shim against the client that Upstash publishes, and single requests that this client does
//! not send.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use super::UpstashShim;
use crate::{Folder, NodeJs, Redis, shared};

const TOKEN: &str = "t0ken";

fn shim() -> UpstashShim {
    UpstashShim::to(shared::redis(), TOKEN).unwrap()
}

/// The published client gets the responses of Upstash.
#[test]
fn serves_the_published_client() {
    // A server of its own: the script needs an empty one.
    let redis = Redis::start().unwrap();
    let shim = UpstashShim::to(&redis, TOKEN).unwrap();
    let package = include_str!("client/package.json");
    let lock = include_str!("client/package-lock.json");
    let packages = NodeJs::with("upstash-redis-1.39.0", package, lock).unwrap();
    let folder = Folder::new("upstash-client").unwrap();
    let script = folder.path().join("check.mjs");
    fs::write(&script, include_str!("client/check.mjs")).unwrap();
    let mut node = packages.command().unwrap();
    node.arg(&script).arg(packages.folder());
    let output = node.args([&shim.url(), TOKEN]).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("all held"), "{stdout}\n{stderr}");
}

/// Sends a request over a connection of its own; the status and the body.
fn call(shim: &UpstashShim, request: &str, headers: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(shim.addr()).unwrap();
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\ncontent-length: {length}\r\n{headers}\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut stream = BufReader::new(stream);
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        std::io::BufRead::read_line(&mut stream, &mut text).unwrap();
    }
    let length = text.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
    let mut body = vec![0; if request.starts_with("HEAD") { 0 } else { length.parse().unwrap() }];
    stream.read_exact(&mut body).unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), String::from_utf8(body).unwrap())
}

const BEARER: &str = "authorization: Bearer t0ken\r\n";

#[test]
fn every_path_needs_the_token() {
    let shim = shim();
    let refused = (401, r#"{"error":"WRONGPASS invalid or missing auth token"}"#.to_owned());
    for headers in ["", "authorization: Bearer guess\r\n", "authorization: t0ken\r\n"] {
        assert_eq!(call(&shim, "POST /", headers, r#"["PING"]"#), refused);
        assert_eq!(call(&shim, "POST /pipeline", headers, r#"[["PING"]]"#), refused);
        assert_eq!(call(&shim, "POST /multi-exec", headers, r#"[["PING"]]"#), refused);
        assert_eq!(call(&shim, "GET /ping", headers, ""), refused);
    }
    let accepted = (200, r#"{"result":"PONG"}"#.to_owned());
    assert_eq!(call(&shim, "GET /ping", BEARER, ""), accepted);
    assert_eq!(call(&shim, "GET /ping?_token=t0ken", "", ""), accepted);
}

#[test]
fn a_path_is_a_command() {
    let shim = shim();
    let result = |request: &str, body: &str| call(&shim, request, BEARER, body).1;
    assert_eq!(result("GET /set/path%3Akey/a%20b", ""), r#"{"result":"OK"}"#);
    assert_eq!(result("GET /get/path%3Akey", ""), r#"{"result":"a b"}"#);
    assert_eq!(result("POST /set/path%3Akey?EX=100", "the body"), r#"{"result":"OK"}"#);
    assert_eq!(result("GET /get/path%3Akey", ""), r#"{"result":"the body"}"#);
    assert_eq!(result("GET /ttl/path%3Akey", ""), r#"{"result":100}"#);
}

#[test]
fn errors_have_the_status_that_is_documented() {
    let shim = shim();
    let (status, body) = call(&shim, "POST /", BEARER, r#"["NO-SUCH-COMMAND"]"#);
    assert!(status == 400 && body.contains("ERR unknown command"), "{status} {body}");
    for wrong in ["", "{", "7", "[]", r#"["GET",null]"#] {
        assert_eq!(call(&shim, "POST /", BEARER, wrong).0, 400, "{wrong}");
    }
    for wrong in ["", "{}", r#"["PING"]"#] {
        assert_eq!(call(&shim, "POST /pipeline", BEARER, wrong).0, 400, "{wrong}");
        assert_eq!(call(&shim, "POST /multi-exec", BEARER, wrong).0, 400, "{wrong}");
    }
    assert_eq!(call(&shim, "DELETE /", BEARER, "").0, 405);
    assert_eq!(call(&shim, "HEAD /ping", BEARER, ""), (200, String::new()));
    // An error among others is one of the results.
    let (status, body) = call(&shim, "POST /pipeline", BEARER, r#"[["PING"],["NO"],["PING"]]"#);
    assert_eq!(status, 200);
    assert!(body.starts_with(r#"[{"result":"PONG"},{"error":"ERR"#), "{body}");
}

#[test]
fn texts_are_encoded_on_request() {
    let shim = shim();
    let headers = format!("{BEARER}upstash-encoding: base64\r\n");
    let body =
        r#"[["SET","text","foobar"],["GET","text"],["LRANGE","none","0","-1"],["EXISTS","text"]]"#;
    let (_, results) = call(&shim, "POST /pipeline", &headers, body);
    assert_eq!(results, r#"[{"result":"OK"},{"result":"Zm9vYmFy"},{"result":[]},{"result":1}]"#);
}

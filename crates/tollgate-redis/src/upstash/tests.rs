//! What goes out, and what each kind of answer means. Whether the interface is understood rightly
//! is seen in the integration tests, over a real server.

use std::sync::Mutex;

use tollgate_core::{Code, Error, Result};
use tollgate_testkit::runtime::block_on;

use super::{Http, Request, Response, Upstash};
use crate::script::Script;
use crate::transport::{Args, Call, Reply, Transport};

/// Gives every request the same response, and keeps the requests.
struct FixedResponse {
    status: u16,
    body: &'static str,
    requests: Mutex<Vec<(String, String)>>,
}

impl Http for FixedResponse {
    async fn post(&self, request: Request<'_>) -> Result<Response> {
        assert!(!format!("{request:?}").contains("s3cret"));
        assert_eq!(request.token, "s3cret");
        let body = String::from_utf8(request.body).unwrap();
        self.requests.lock().unwrap().push((request.url.to_owned(), body));
        Ok(Response { status: self.status, body: self.body.into() })
    }
}

fn upstash(status: u16, body: &'static str) -> Upstash<FixedResponse> {
    let http = FixedResponse { status, body, requests: Mutex::default() };
    Upstash::over(http, "https://db.example/", "s3cret").unwrap()
}

fn call(text: &str, argument: &str) -> Call {
    let mut args = Args::default();
    args.text(argument);
    args.integer(-7);
    Call::new(Script::new(text.to_owned()), vec!["k:{a}".to_owned()], args)
}

fn send_all(upstash: &Upstash<FixedResponse>, calls: &[Call]) -> Vec<Result<Reply>> {
    let mut replies = Vec::new();
    block_on(upstash.send_all(calls, |_, reply| replies.push(reply)));
    replies
}

fn answer(status: u16, body: &'static str) -> Result<Reply> {
    block_on(upstash(status, body).send(&call("return 1", "")))
}

fn failure(status: u16, body: &'static str) -> Error {
    answer(status, body).unwrap_err()
}

#[test]
fn calls_share_one_request_and_are_quoted() {
    let upstash = upstash(200, r#"[{"result":1},{"result":2}]"#);
    let calls = [call("return 1", "\"\\\n\u{7}ü"), call("return 1", "").with_text()];
    let replies = send_all(&upstash, &calls);
    let replies: Vec<Reply> = replies.into_iter().collect::<Result<_>>().unwrap();
    assert_eq!(replies, [Reply::Integer(1), Reply::Integer(2)]);
    let requests = upstash.http().requests.lock().unwrap().clone();
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let first = format!(r#"["EVALSHA","{digest}","1","k:{{a}}","\"\\\n\u0007ü","-7"]"#);
    let second = r#"["EVAL","return 1","1","k:{a}","","-7"]"#;
    let url = "https://db.example/pipeline".to_owned();
    assert_eq!(requests, [(url, format!("[{first},{second}]"))]);
}

#[test]
fn a_request_stays_below_what_upstash_accepts() {
    let upstash = upstash(200, r#"[{"result":1},{"result":1}]"#);
    let script = format!("return '{}'", "x".repeat(300_000));
    let calls: Vec<Call> = (0..4).map(|_| call(&script, "").with_text()).collect();
    assert!(send_all(&upstash, &calls).iter().all(Result::is_ok));
    assert_eq!(upstash.http().requests.lock().unwrap().len(), 2);
}

#[test]
fn after_a_failure_nothing_more_is_sent() {
    let upstash = upstash(500, "");
    let script = format!("return '{}'", "x".repeat(600_000));
    let calls: Vec<Call> = (0..3).map(|_| call(&script, "").with_text()).collect();
    let replies = send_all(&upstash, &calls);
    assert_eq!(upstash.http().requests.lock().unwrap().len(), 1);
    let not_sent = replies.into_iter().map(|reply| reply.unwrap_err().is_not_sent());
    assert_eq!(not_sent.collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn results_become_replies() {
    let reply = |body| answer(200, body).unwrap();
    assert_eq!(reply(r#"[{"result":null}]"#), Reply::Nil);
    assert_eq!(reply(r#"[{"result":9007199254740991}]"#), Reply::Integer((1 << 53) - 1));
    assert_eq!(reply(r#"[{"result":"ok"}]"#), Reply::Text("ok".into()));
    let list = Reply::List(vec![Reply::Integer(-1), Reply::List(vec![]), Reply::Nil]);
    assert_eq!(reply(r#"[{"result":[-1,[],null]}]"#), list);
    let unknown = Reply::Error("NOSCRIPT No matching script".to_owned());
    assert_eq!(reply(r#"[{"error":"NOSCRIPT No matching script"}]"#), unknown);
}

/// The calls may have run: they must not be sent again.
#[test]
fn what_is_no_answer_leaves_the_outcome_unknown() {
    for body in [
        "",
        "<html>",
        "7",
        "[]",
        "{}",
        "[7]",
        "[{}]",
        r#"[{"result":1},{"result":1}]"#,
        r#"[{"error":7}]"#,
        r#"[{"result":1.5}]"#,
        r#"[{"result":18446744073709551615}]"#,
        r#"[{"result":{"a":1}}]"#,
        r#"[{"result":[true]}]"#,
    ] {
        let error = failure(200, body);
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, false), "{body}");
    }
    for status in [100, 201, 408, 500, 502, 503, 504] {
        let error = failure(status, r#"{"error":"ERR something"}"#);
        assert_eq!(
            (error.code(), error.is_not_sent()),
            (Code::StoreUnavailable, false),
            "{status}"
        );
    }
}

#[test]
fn a_refusal_as_a_whole_means_that_nothing_ran() {
    for status in [301, 400, 401, 403, 404, 405, 413, 429] {
        let error = failure(status, r#"{"error":"WRONGPASS of a-key"}"#);
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true), "{status}");
        assert!(!error.to_string().contains("a-key"), "{error}");
    }
    assert!(failure(401, "").message().contains("token"));
    let limit = failure(400, r#"{"error":"ERR max requests limit exceeded. Limit: 500000"}"#);
    assert!(limit.message().contains("max requests limit exceeded"));
}

/// Not an outage: it would fail open for as long as the database is full.
#[test]
fn a_full_database_never_fails_open() {
    let said = r#"{"error":"ERR DB capacity quota exceeded"}"#;
    let inside = r#"[{"error":"ERR Error running script: DB capacity quota exceeded"}]"#;
    for error in [failure(400, said), failure(200, inside)] {
        assert_eq!((error.code(), error.is_not_sent()), (Code::StoreFull, false));
    }
}

#[test]
fn bad_settings_are_named_and_never_repeated() {
    let field = |url: &str, token: &str| {
        let http = FixedResponse { status: 200, body: "", requests: Mutex::default() };
        let error = Upstash::over(http, url, token).unwrap_err();
        assert_eq!(error.code(), Code::ConfigInvalid);
        assert!(!error.to_string().contains("s3cret"), "{error}");
        error.field().unwrap().to_owned()
    };
    for url in [
        "",
        "db.example",
        "redis://db.example",
        "https://",
        "https:///path",
        "https://:443",
        "https://s3cret@db.example",
        "https://db.example?_token=s3cret",
        "https://db.example#s3cret",
        "https://db.example\n",
        "\"https://db.example\"",
        "https://dä.example",
    ] {
        assert_eq!(field(url, "token"), "url", "{url}");
    }
    for token in ["", "s3cret ", "s3cret\n", "s3crét"] {
        assert_eq!(field("https://db.example", token), "token", "{token}");
    }
    assert!(!format!("{:?}", upstash(200, "")).contains("s3cret"));
}

//! `docs/recipes.md` says what a server answers.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate::ManualClock;
use tollgate_server::Config;
use tollgate_server::policy::Policies;
use tollgate_service::config::values::duration;
use tollgate_test_servers::Nginx;

use crate::support::{NOW, Running};

const PAGE: &str = include_str!("../../../../docs/recipes.md");
/// Where the lines of Rust on the page come from; a test runs it.
const EXAMPLE: &str = include_str!("../../../../examples/examples/llm_tokens.rs");

/// The blocks of a page: the language and the text of each.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let fenced = page.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

fn policies(text: &str) -> Policies {
    let config = Config::of_text(&[], |_| None, Some(("recipes.yaml", text)));
    config.unwrap_or_else(|errors| panic!("{errors:?} in {text}")).policies
}

#[tokio::test]
async fn every_answer_on_the_page_is_that_of_a_server() {
    let mut server: Option<(Running, ManualClock)> = None;
    let mut answers = 0;
    for (language, text) in blocks(PAGE) {
        match language {
            "yaml" => {
                if let Some((ended, _)) = server.take() {
                    ended.end().await;
                }
                let clock = ManualClock::at(NOW);
                server = Some((Running::with_clock(policies(text), &clock).await, clock));
            }
            "http" => answers += run(server.as_ref().unwrap(), text).await,
            "rust" => assert!(EXAMPLE.contains(text), "{text}"),
            other => assert_eq!(other, "nginx"),
        }
    }
    server.unwrap().0.end().await;
    assert!(answers >= 25, "only {answers} answers were compared");
}

/// Sends the requests of a block, and compares the answers; how many.
async fn run((server, clock): &(Running, ManualClock), text: &str) -> usize {
    // A long line goes on in the next one, which is indented.
    let text = text.replace("\n    ", " ");
    let mut lines = text.lines();
    let mut answers = 0;
    let mut receipt = String::new();
    while let Some(line) = lines.next() {
        if let Some(wait) = line.strip_prefix("wait ") {
            clock.advance(duration(wait).unwrap());
            continue;
        }
        let (method, rest) = line.split_once(' ').expect(line);
        let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let request = match method {
            "GET" => reqwest::Client::new().get(server.url(path)),
            "POST" => {
                let body = body.replace("$receipt", &receipt);
                reqwest::Client::new().post(server.url(path)).body(body)
            }
            other => panic!("{other}"),
        };
        let answer = request.send().await.unwrap();
        let (status, expected) = lines.next().unwrap().split_once(' ').unwrap();
        assert_eq!(answer.status().as_u16().to_string(), status, "{line}");
        let expected: Value = serde_json::from_str(expected).expect(line);
        let found = content(answer).await;
        if let Some(text) = found["receipt"].as_str() {
            text.clone_into(&mut receipt);
        }
        has(&found, &expected).unwrap_or_else(|why| panic!("{line}: {why} in {found}"));
        answers += 1;
    }
    answers
}

/// The body, or the headers of an answer without one.
async fn content(answer: Response) -> Value {
    let headers = answer.headers().iter();
    let headers: Map<String, Value> =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().into())).collect();
    let body = answer.bytes().await.unwrap();
    if body.is_empty() { headers.into() } else { serde_json::from_slice(&body).unwrap() }
}

/// Whether a value has all that is expected.
fn has(found: &Value, expected: &Value) -> Result<(), String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().try_for_each(|(name, value)| {
                let inner = found.get(name).ok_or_else(|| format!("no {name}"))?;
                has(inner, value).map_err(|why| format!("{name}: {why}"))
            })
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            found.iter().zip(expected).try_for_each(|(one, other)| has(one, other))
        }
        _ if found == expected => Ok(()),
        _ => Err(format!("{found} and not {expected}")),
    }
}

#[test]
fn an_answer_that_differs_is_found() {
    let found = serde_json::json!({"a": 1, "b": [{"c": 2}, {"c": 3}]});
    for (expected, is_had) in [
        (serde_json::json!({"b": [{"c": 2}, {}]}), true),
        (serde_json::json!({"a": 2}), false),
        (serde_json::json!({"d": 1}), false),
        (serde_json::json!({"b": [{"c": 2}]}), false),
    ] {
        assert_eq!(has(&found, &expected).is_ok(), is_had, "{expected}");
    }
}

/// nginx with the configuration of the page, before a service that says how long it is to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_passes_the_delay_of_a_shaper_on() {
    let all = blocks(PAGE);
    let at = all.iter().position(|(language, _)| *language == "nginx").unwrap();
    let (site, yaml) = (all[at].1, all[at + 1].1);
    let server = Running::with(policies(yaml)).await;
    let behind = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let service = behind.local_addr().unwrap();
    let waits = tokio::spawn(async move {
        loop {
            let (mut stream, _) = behind.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let delay = head.lines().find_map(|line| line.strip_prefix("Tollgate-Delay-Ms: "));
            let body = delay.unwrap_or("none");
            let reply = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(reply.as_bytes()).await.unwrap();
        }
    });
    let (site, gate) = (site.to_owned(), server.url(""));
    let start = move || {
        Nginx::start(move |front, _| {
            site.replace("127.0.0.1:8081", &front.to_string())
                .replace("http://127.0.0.1:8080", &gate)
                .replace("127.0.0.1:8082", &service.to_string())
        })
    };
    let nginx = tokio::task::spawn_blocking(start).await.unwrap().unwrap();
    let url = format!("http://{}/page", nginx.addr());
    let first = reqwest::get(&url).await.unwrap().text().await.unwrap();
    assert_eq!(first, "none", "{}", nginx.log());
    let second = reqwest::get(&url).await.unwrap().text().await.unwrap();
    let delay = Duration::from_millis(second.parse().unwrap());
    let hour = Duration::from_secs(3_600);
    assert!(delay <= hour && delay > hour / 2, "{delay:?}");
    assert_eq!(reqwest::get(&url).await.unwrap().status().as_u16(), 403);
    waits.abort();
    server.end().await;
}

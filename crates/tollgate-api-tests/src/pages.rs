//! Pages of other sites: what a browser sends for them changes nothing where no token is needed.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, ORIGIN};
use reqwest::{Method, RequestBuilder};

use crate::{CALLER, Client, Running, SLOW, Setup, Target};

const SEC_FETCH_SITE: &str = "sec-fetch-site";
const PATHS: [&str; 8] = [
    "/v1/acquire",
    "/v1/acquire_many",
    "/v1/peek",
    "/v1/forecast",
    "/v1/limits",
    "/v1/refund",
    "/v1/reset",
    "/v1/gate?key=k",
];

/// The fields by which a browser marks a request of a foreign page, for a service at an address.
fn foreign(url: &str) -> [Vec<(&'static str, String)>; 6] {
    let origin = |text: &str| (ORIGIN.as_str(), text.to_owned());
    [
        vec![origin("https://evil.example")],
        vec![origin("null")],
        vec![origin("http://localhost:1")],
        vec![origin(url), origin("https://evil.example")],
        vec![(SEC_FETCH_SITE, "cross-site".to_owned())],
        vec![(SEC_FETCH_SITE, "same-site".to_owned())],
    ]
}

fn request(client: &Client, method: Method, path: &str) -> RequestBuilder {
    let body = match path {
        "/v1/acquire_many" => r#"{"requests":[]}"#,
        _ if method == Method::GET => "",
        _ => r#"{"key":"k"}"#,
    };
    reqwest::Client::new().request(method, client.url(path)).body(body)
}

async fn status(mut request: RequestBuilder, fields: &[(&'static str, String)]) -> u16 {
    for (name, value) in fields {
        request = request.header(*name, value);
    }
    request.send().await.unwrap().status().as_u16()
}

/// Requests of foreign pages are refused on every path, and charge nothing.
pub async fn requests_of_foreign_pages_are_refused<T: Target>(target: &T) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    for path in PATHS {
        for fields in &foreign(&server.url()) {
            let sent = request(&client, Method::POST, path);
            assert_eq!(status(sent, fields).await, 403, "{path} {fields:?}");
        }
    }
    let mut reads = vec!["/v1/gate?key=k", "/v1/policies"];
    if T::HAS_METRICS {
        reads.push("/metrics");
    }
    for path in reads {
        for fields in &foreign(&server.url()) {
            let sent = request(&client, Method::GET, path);
            assert_eq!(status(sent, fields).await, 403, "{path} {fields:?}");
        }
    }
    // Pages of this service, addresses typed by users, and programs.
    let form = "application/x-www-form-urlencoded".to_owned();
    let own = [
        vec![(ORIGIN.as_str(), server.url()), (SEC_FETCH_SITE, "same-origin".to_owned())],
        vec![(SEC_FETCH_SITE, "none".to_owned())],
        vec![(CONTENT_TYPE.as_str(), form)],
    ];
    for fields in &own {
        let sent = request(&client, Method::POST, "/v1/acquire");
        assert_eq!(status(sent, fields).await, 200, "{fields:?}");
    }
    let (_, decision) = client.post("/v1/peek", r#"{"key":"k"}"#).await;
    assert_eq!(decision["remaining"], 7);
    server.end().await;
}

/// A page cannot have a token.
pub async fn where_a_token_is_needed_it_decides_alone(target: &impl Target) {
    let server = target.start(Setup { tokens: &[CALLER], ..Setup::of(SLOW) }).await;
    let client = Client::of(&server);
    for mut fields in foreign(&server.url()) {
        let sent = request(&client, Method::POST, "/v1/acquire");
        assert_eq!(status(sent, &fields).await, 401, "{fields:?}");
        fields.push((AUTHORIZATION.as_str(), format!("Bearer {CALLER}")));
        let sent = request(&client, Method::POST, "/v1/acquire");
        assert_eq!(status(sent, &fields).await, 200, "{fields:?}");
    }
    server.end().await;
}

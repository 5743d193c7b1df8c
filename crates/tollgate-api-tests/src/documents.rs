//! The OpenAPI document has every path, and every reply fits its schema.

use std::collections::BTreeSet;

use reqwest::Response;
use serde_json::{Value, json};
use tollgate_http::names::{RATELIMIT, RATELIMIT_POLICY, TOLLGATE};
use tollgate_service::api::OPENAPI;

use crate::{ADMIN, Client, Running, SECRET, SLOW, Setup, Target};

/// What a host that is no process does not serve.
const OF_PROCESS: [&str; 4] = ["/metrics", "/v1/status", "/v1/events", "/v1/inspect"];

/// Every reply fits the document that the server itself sends.
pub async fn every_reply_is_as_documented<T: Target>(target: &T) {
    let setup = Setup { admin_tokens: &[ADMIN], receipt_secret: SECRET, ..Setup::of(SLOW) };
    let server = target.start(setup).await;
    let client = Client::of(&server).with_token(ADMIN);
    let document = client.get("/openapi.json").await.bytes().await.unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let requests = requests::<T>();
    let settles = ["cost", "cost", "costs"].map(|field| ("/v1/settle", field));
    let mut receipt = Value::Null;
    for &(path, body) in requests.iter().chain(&settles) {
        // The last ones settle what was charged.
        let body = match body {
            "cost" => json!({"receipt": receipt, "cost": 2}).to_string(),
            "costs" => json!({"receipt": receipt, "costs": {"default": 3}}).to_string(),
            body => body.to_owned(),
        };
        let (status, reply) = client.post(path, &body).await;
        if reply["receipt"].is_string() {
            receipt = reply["receipt"].clone();
        }
        let responses = &document["paths"][path]["post"]["responses"];
        let content = &responses[status.to_string()]["content"];
        let kind = if status == 200 { "application/json" } else { "application/problem+json" };
        let schema = &content[kind]["schema"];
        assert!(schema.is_object(), "{path} {status} is not documented");
        fits(&document, schema, &reply).unwrap_or_else(|why| panic!("{path} {body}: {why}"));
    }
    let is_served = |path: &&String| T::HAS_METRICS || !OF_PROCESS.contains(&&***path);
    for path in document["paths"].as_object().unwrap().keys().filter(is_served) {
        let posts = requests.iter().any(|(posted, _)| posted == path);
        let status = client.get(path).await.status().as_u16();
        assert_eq!(posts, status == 405, "{path} answers {status}");
        assert_ne!(status, 404, "{path} is documented and not there");
    }
    let wrong = json!({"reset": 1});
    assert!(fits(&document, &json!({"$ref": "#/components/schemas/Reset"}), &wrong).is_err());
    server.end().await;
}

/// Requests that are answered in every way, and the paths of their endpoints.
fn requests<T: Target>() -> Vec<(&'static str, &'static str)> {
    let key = r#"{"key":"k"}"#;
    let mut requests = vec![
        ("/v1/acquire", key),
        ("/v1/acquire", r#"{"key":"k","cost":11}"#),
        ("/v1/acquire", r#"{"key":"k","cost":10}"#),
        ("/v1/acquire", r#"{"key":"k","cost":0}"#),
        ("/v1/acquire", r#"{"key":"k","policy":"unknown"}"#),
        ("/v1/acquire", r#"{"key":"k","request_id":"i"}"#),
        ("/v1/acquire", r#"{"key":"k","request_id":"i","cost":2}"#),
        ("/v1/acquire_many", r#"{"requests":[{"key":"k"},{}]}"#),
        ("/v1/acquire_many", "{}"),
        ("/v1/acquire", r#"{"charges":[{"key":"a"},{"key":"b"}]}"#),
        ("/v1/acquire", r#"{"charges":[]}"#),
        ("/v1/acquire", r#"{"key":"r","cost":{"min":1,"max":3}}"#),
        ("/v1/peek", r#"{"charges":[{"key":"a","cost":{"max":3}},{"key":"b"}]}"#),
        ("/v1/forecast", r#"{"charges":[{"key":"a"},{"key":"b"}]}"#),
        ("/v1/limits", r#"{"charges":[{"key":"a"},{"key":"b"}]}"#),
        ("/v1/peek", key),
        ("/v1/peek", "{}"),
        ("/v1/forecast", key),
        ("/v1/forecast", r#"{"key":"fresh"}"#),
        ("/v1/forecast", "{}"),
        ("/v1/limits", key),
        ("/v1/limits", "{}"),
        ("/v1/limits", r#"{"key":"k","policy":"unknown"}"#),
        ("/v1/refund", key),
        ("/v1/refund", "{}"),
        ("/v1/refund", r#"{"receipt":"no-receipt"}"#),
        ("/v1/settle", "{}"),
        ("/v1/settle", r#"{"receipt":"no-receipt","cost":1}"#),
        ("/v1/acquire", r#"{"key":"k","receipt":true}"#),
        ("/v1/reset", key),
        ("/v1/reset", "{}"),
    ];
    if T::HAS_METRICS {
        requests.extend([
            ("/v1/inspect", key),
            ("/v1/inspect", "{}"),
            ("/v1/inspect", r#"{"key":"k","policy":"unknown"}"#),
        ]);
    }
    requests
}

/// The document, the page and the files for proxies name the headers of the gate.
pub async fn documents_and_proxies_name_the_headers_that_are_sent(target: &impl Target) {
    let server = target.start(Setup::of(SLOW)).await;
    let client = Client::of(&server);
    let gate = "/v1/gate?key=k&cost=6";
    let (allowed, denied) = (client.get(gate).await, client.get(gate).await);
    assert_eq!((allowed.status().as_u16(), denied.status().as_u16()), (204, 429));
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let documented = |name: &str| -> BTreeSet<String> {
        let headers = &document["components"]["responses"][name]["headers"];
        headers.as_object().unwrap().keys().map(|name| name.to_lowercase()).collect()
    };
    let some_have: BTreeSet<String> =
        TOLLGATE.iter().map(|name| name.as_str().to_owned()).collect();
    let of_all = |name| documented(name).difference(&some_have).cloned().collect::<BTreeSet<_>>();
    assert_eq!(of_all("GateAllowed"), limit_fields(&allowed), "openapi.json");
    let sent = limit_fields(&denied);
    assert_eq!(of_all("GateDenied"), sent, "openapi.json");
    assert!(documented("GateAllowed").is_superset(&some_have), "openapi.json");
    assert!([RATELIMIT, RATELIMIT_POLICY].iter().all(|name| sent.contains(name.as_str())));

    let nginx = include_str!("../../../deploy/nginx/tollgate.conf");
    let words = |prefix: &str| -> BTreeSet<String> {
        let words = nginx.split(prefix).skip(1);
        let words = words.map(|rest| rest.split([' ', ';']).next().unwrap().to_lowercase());
        words.map(|word| word.replace('_', "-")).collect()
    };
    assert_eq!(words("add_header "), sent, "deploy/nginx/tollgate.conf");
    assert_eq!(words("$upstream_http_"), sent, "deploy/nginx/tollgate.conf");
    let page = include_str!("../../../docs/protocols.md").to_lowercase();
    for name in sent.union(&some_have) {
        assert!(page.contains(&format!("`{name}`")), "docs/protocols.md does not name {name}");
    }
    server.end().await;
}

/// The fields of a response that are about the limit.
fn limit_fields(response: &Response) -> BTreeSet<String> {
    let others = ["cache-control", "content-length", "date"];
    let names = response.headers().keys().map(|name| name.as_str().to_owned());
    names.filter(|name| !others.contains(&name.as_str())).collect()
}

/// Whether a value fits a schema, as far as the document uses schemas.
fn fits(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').unwrap();
        return fits(document, document.pointer(pointer).expect(reference), value);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let fitting = options.iter().filter(|one| fits(document, one, value).is_ok()).count();
        return if fitting == 1 { Ok(()) } else { Err(format!("{fitting} options fit {value}")) };
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !kinds.contains(&kind) {
        return Err(format!("{value} is {kind}, not {kinds:?}"));
    }
    if schema["enum"].as_array().is_some_and(|accepted| !accepted.contains(value)) {
        return Err(format!("{value} is not one of {}", schema["enum"]));
    }
    if let Some(elements) = value.as_array() {
        return elements.iter().try_for_each(|one| fits(document, &schema["items"], one));
    }
    let Some(fields) = value.as_object() else { return Ok(()) };
    for required in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(required.as_str().unwrap()) {
            return Err(format!("{required} is missing in {value}"));
        }
    }
    // Fields may be added, but here every field is documented.
    fields.iter().try_for_each(|(name, field)| match schema["properties"].get(name) {
        Some(property) => fits(document, property, field),
        None if schema["properties"].is_null() => Ok(()),
        None => Err(format!("{name} is not documented")),
    })
}

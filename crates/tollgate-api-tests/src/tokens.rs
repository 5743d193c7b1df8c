//! Tokens of callers and administrators.

use serde_json::json;

use crate::{ADMIN, CALLER, Client, Running, SECRET, SLOW, Setup, Target};

/// Every endpoint that decides needs a token; a reset, and a refund without a receipt, need one of
/// an administrator.
pub async fn http_needs_a_token_of_the_right_kind<T: Target>(target: &T) {
    let (tokens, admin_tokens) = (&["another-long-token", CALLER][..], &[ADMIN][..]);
    let server = target.start(Setup { tokens, admin_tokens, ..Setup::of(SLOW) }).await;
    let client = Client::of(&server);
    let post = async |path: &str, token: Option<&str>| {
        let request = reqwest::Client::new().post(client.url(path)).body(r#"{"key":"k"}"#);
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.headers().contains_key("www-authenticate"))
    };
    for path in ["/v1/acquire", "/v1/peek", "/v1/forecast", "/v1/gate?key=k"] {
        for token in [None, Some(""), Some("token-of-a-calleR"), Some("token-of-a-calle")] {
            assert_eq!(post(path, token).await, (401, true), "{path} {token:?}");
        }
        assert!(post(path, Some(CALLER)).await.0 < 300, "{path}");
        assert!(post(path, Some(ADMIN)).await.0 < 300, "{path}");
    }
    // Without a receipt, a refund is a reset of as many units.
    for path in ["/v1/reset", "/v1/refund"] {
        assert_eq!(post(path, None).await.0, 401, "{path}");
        assert_eq!(post(path, Some(CALLER)).await, (403, false), "{path}");
        assert_eq!(post(path, Some(ADMIN)).await.0, 200, "{path}");
    }
    assert_eq!(client.get("/openapi.json").await.status().as_u16(), 200);
    if T::HAS_METRICS {
        assert_eq!(client.get("/metrics").await.status().as_u16(), 401);
    }
    server.end().await;
}

/// What a caller is refused with on each path, and a body for it under a policy.
const PATHS: [(&str, &str); 8] = [
    ("/v1/acquire", r#"{"key":"k","policy":"POLICY"}"#),
    ("/v1/acquire", r#"{"charges":[{"key":"k","policy":"mine"},{"key":"k","policy":"POLICY"}]}"#),
    ("/v1/peek", r#"{"key":"k","policy":"POLICY"}"#),
    ("/v1/forecast", r#"{"key":"k","policy":"POLICY"}"#),
    ("/v1/limits", r#"{"key":"k","policy":"POLICY"}"#),
    ("/v1/refund", r#"{"key":"k","policy":"POLICY"}"#),
    ("/v1/reset", r#"{"key":"k","policy":"POLICY"}"#),
    ("/v1/gate?key=k&policy=POLICY", ""),
];

/// A token for some policies is refused under others, with the same words whether they exist.
pub async fn a_token_for_some_policies_has_no_others<T: Target>(target: &T) {
    let policies = "policies: {mine: {limit: 10 per 1d}, theirs: {limit: 10 per 1d}}";
    let (mine, admin) = (format!("{CALLER}:mine"), format!("{ADMIN}:mine"));
    let (tokens, admin_tokens) = (&["another-long-token", mine.as_str()][..], &[&*admin][..]);
    let setup = Setup { tokens, admin_tokens, receipt_secret: SECRET, ..Setup::of(policies) };
    let server = target.start(setup).await;
    let [caller, admin] = [CALLER, ADMIN].map(|token| Client::of(&server).with_token(token));
    let all = Client::of(&server).with_token("another-long-token");
    for (path, body) in PATHS {
        let ask = async |policy: &str| {
            let (path, body) = (path.replace("POLICY", policy), body.replace("POLICY", policy));
            let (status, problem) = admin.post(&path, &body).await;
            (status, problem["code"].clone(), problem["field"].clone(), problem["detail"].clone())
        };
        let theirs = ask("theirs").await;
        let field = if body.contains("charges") { "charges[1].policy" } else { "policy" };
        let forbidden = (403, json!("forbidden"), json!(field), theirs.3.clone());
        assert_eq!(theirs, forbidden, "{path} {body}");
        for unknown in ["their", "nothing-like-it", "default", "cl.throttle", ""] {
            assert_eq!(ask(unknown).await, theirs, "{path} {unknown}");
        }
        if path != "/v1/gate?key=k&policy=POLICY" {
            assert_eq!(ask("mine").await.0, 200, "{path}");
        }
    }
    // Elements of a batch are judged one by one.
    let batch = r#"{"requests":[{"key":"b","policy":"mine"},{"key":"b","policy":"theirs"}]}"#;
    let (status, decisions) = caller.post("/v1/acquire_many", batch).await;
    let error = &decisions["decisions"][1]["error"];
    assert_eq!((status, &decisions["decisions"][0]["allowed"]), (200, &json!(true)));
    let found = (&error["code"], &error["field"]);
    assert_eq!(found, (&json!("forbidden"), &json!("requests[1].policy")));
    // A receipt of another policy is for others, and stays unused.
    let charge = json!({"key": "k", "policy": "theirs", "cost": 3, "receipt": true}).to_string();
    let receipt = all.post("/v1/acquire", &charge).await.1["receipt"].clone();
    let refund = json!({"receipt": receipt}).to_string();
    let settle = json!({"receipt": receipt, "costs": {"no-limit": 1}}).to_string();
    for (path, body) in [("/v1/refund", &refund), ("/v1/settle", &settle)] {
        let (status, problem) = caller.post(path, body).await;
        assert_eq!((status, &problem["field"]), (403, &json!("policy")), "{path}: {problem}");
    }
    assert_eq!(all.post("/v1/refund", &refund).await.1["refunded"], 3);
    // Nor does it learn their names.
    let listed = caller.get("/v1/policies").await.text().await.unwrap();
    assert!(listed.contains("mine") && !listed.contains("theirs"), "{listed}");
    if T::HAS_METRICS {
        for path in ["/metrics", "/v1/status", "/v1/events"] {
            assert_eq!(caller.get(path).await.status().as_u16(), 403, "{path}");
            assert_eq!(all.get(path).await.status().as_u16(), 200, "{path}");
        }
        let (_, standing) = caller.post("/v1/inspect", r#"{"key":"k"}"#).await;
        assert_eq!(standing["policies"].as_array().unwrap().len(), 1, "{standing}");
        let other = r#"{"key":"k","policy":"theirs"}"#;
        assert_eq!(caller.post("/v1/inspect", other).await.0, 403);
    }
    server.end().await;
}

/// Where only administrators have tokens, what needs one is unauthorized without it, and a token
/// that is not known is a guess.
pub async fn what_a_token_would_permit_is_unauthorized_without_one(target: &impl Target) {
    let setup = Setup { admin_tokens: &[ADMIN], receipt_secret: SECRET, ..Setup::of(SLOW) };
    let server = target.start(setup).await;
    for path in ["/v1/reset", "/v1/refund"] {
        for token in ["", "token-of-an-admiN"] {
            let request = reqwest::Client::new().post(Client::of(&server).url(path));
            let response = request.bearer_auth(token).body(r#"{"key":"k"}"#).send().await.unwrap();
            assert_eq!(response.status().as_u16(), 401, "{path} {token:?}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer");
        }
        let admin = Client::of(&server).with_token(ADMIN);
        assert_eq!(admin.post(path, r#"{"key":"k"}"#).await.0, 200, "{path}");
    }
    server.end().await;
}

//! Tokens of callers and administrators.

use crate::{ADMIN, CALLER, Client, Running, SLOW, Setup, Target};

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

//! Health and readiness.

use crate::{ADMIN, CALLER, Client, Running, SLOW, Setup, Target};

/// Both need no token, and are read only.
pub async fn health_and_readiness_need_no_token(target: &impl Target) {
    let (tokens, admin_tokens) = (&[CALLER][..], &[ADMIN][..]);
    let server = target.start(Setup { tokens, admin_tokens, ..Setup::of(SLOW) }).await;
    let client = Client::of(&server);
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ready")] {
        let reply = client.get(path).await;
        let kind = reply.headers()["content-type"].to_str().unwrap().to_owned();
        assert_eq!((reply.status().as_u16(), &*kind), (200, "text/plain; charset=utf-8"), "{path}");
        assert!(reply.text().await.unwrap().starts_with(body), "{path}");
        let head = reqwest::Client::new().head(client.url(path)).send().await.unwrap();
        assert_eq!(head.status().as_u16(), 200, "{path}");
        let post = reqwest::Client::new().post(client.url(path)).send().await.unwrap();
        assert_eq!(post.status().as_u16(), 405, "{path}");
        assert_eq!(post.headers()["allow"], "GET,HEAD", "{path}");
    }
    server.end().await;
}

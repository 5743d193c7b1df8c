//! Every extractor over a real connection.

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::get;
use http::HeaderName;
use tollgate_tower::axum::Route;
use tollgate_tower::extract::{ApiKey, Extract, FromFn, Global, HashKey, Header, Path, User};
use tollgate_tower::{LimitRule, RateLimitLayer, RequestParts, Subject};

use crate::support::{Server, hello, json, limiter, peer, per_minute, runtime, serve};

const TENANT: HeaderName = HeaderName::from_static("x-tenant");
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

fn layer(extract: impl Extract + 'static) -> RateLimitLayer<impl tollgate_tower::Decide> {
    RateLimitLayer::new(limiter().0, per_minute("p", 1), extract).unwrap()
}

/// Whether the second request shares the budget of the first.
async fn share(server: &Server, one: &[(&str, &str)], other: &[(&str, &str)]) -> bool {
    assert_eq!(server.get_with("/", one).await.status(), 200, "{one:?} is fresh");
    server.get_with("/", other).await.status() == 429
}

#[test]
fn by_header() {
    runtime().block_on(async {
        let server = hello(layer(Header::new(TENANT))).await;
        assert!(share(&server, &[("x-tenant", "a")], &[("x-tenant", "a")]).await);
        assert!(!share(&server, &[("x-tenant", "b")], &[("x-tenant", "c")]).await);
        let missing = server.get("/").await;
        assert_eq!(
            (missing.status().as_u16(), &json(&missing)["field"]),
            (400, &"x-tenant".into())
        );
        let long = "x".repeat(513);
        for bad in [
            &[("x-tenant", "a"), ("x-tenant", "b")][..],
            &[("x-tenant", &*long)],
            &[("x-tenant", "")],
        ] {
            assert_eq!(server.get_with("/", bad).await.status(), 400);
        }
    });
}

#[test]
fn by_api_key_which_is_never_shown() {
    let secret = HashKey::new(b"sixteen bytes or more").unwrap();
    let by_header = ApiKey::header(API_KEY, secret.clone());
    let request = Request::get("/").header(API_KEY, "hunter2").body(()).unwrap();
    let mut subject = Subject::default();
    by_header.extract(&RequestParts::of(&request), &mut subject).unwrap();
    assert!(subject.as_str().starts_with("key=") && subject.as_str().len() == 4 + 32);
    assert!(!subject.as_str().contains("hunter2"));
    assert!(!format!("{:?} {by_header:?}", RequestParts::of(&request)).contains("hunter2"));
    runtime().block_on(async {
        let server = hello(layer(ApiKey::bearer(secret))).await;
        let bearer = |token| [("authorization", token)];
        assert!(share(&server, &bearer("Bearer one"), &bearer("bearer  one")).await);
        assert!(!share(&server, &bearer("Bearer two"), &bearer("Bearer three")).await);
        assert_eq!(server.get_with("/", &bearer("Basic dXNlcg==")).await.status(), 400);
        assert_eq!(server.get_with("/", &bearer("Bearer ")).await.status(), 400);
    });
}

#[derive(Clone)]
struct Account {
    name: String,
}

/// An authentication layer that accepts every name.
async fn authenticate(mut request: Request, next: Next) -> axum::response::Response {
    if let Some(name) = request.headers().get("x-user").and_then(|name| name.to_str().ok()) {
        let account = Account { name: name.to_owned() };
        request.extensions_mut().insert(account);
    }
    next.run(request).await
}

fn user() -> impl Extract {
    User::new(|account: &Account| account.name.as_str())
}

#[test]
fn by_user_or_else_by_address_with_tags_that_keep_them_apart() {
    runtime().block_on(async {
        let app = Router::new().route("/", get(|| async { "hello" }));
        let app = app.layer(layer(user().or(peer()))).layer(from_fn(authenticate));
        let server = serve(app).await;
        assert!(share(&server, &[("x-user", "ada")], &[("x-user", "ada")]).await);
        // A user whose name is our address, with and without the tag, has another budget.
        assert!(share(&server, &[], &[]).await);
        for name in ["127.0.0.1", "ip=127.0.0.1"] {
            assert!(share(&server, &[("x-user", name)], &[("x-user", name)]).await);
        }
    });
}

#[test]
fn only_an_optional_limit_does_not_apply_without_a_subject() {
    runtime().block_on(async {
        for (is_optional, status) in [(true, 200), (false, 400)] {
            let mut rule = LimitRule::new(per_minute("per-user", 1), user());
            if is_optional {
                rule = rule.optional();
            }
            let layer = RateLimitLayer::builder(limiter().0)
                .limit(per_minute("per-ip", 3), peer())
                .limit_rule(rule)
                .build();
            let app = Router::new().route("/", get(|| async { "hello" })).layer(layer.unwrap());
            let server = serve(app.layer(from_fn(authenticate))).await;
            assert_eq!(server.get("/").await.status(), status);
            let ada = [("x-user", "ada")];
            assert_eq!(server.get_with("/", &ada).await.status(), 200);
            let refused = server.get_with("/", &ada).await;
            assert_eq!(json(&refused)["violated-policies"], serde_json::json!(["per-user"]));
        }
    });
}

#[test]
fn by_route_as_it_was_declared() {
    runtime().block_on(async {
        let routes = Router::new()
            .route("/users/{id}", get(|| async { "user" }))
            .route("/posts/{id}", get(|| async { "post" }));
        let server = serve(routes.clone().layer(layer(Route))).await;
        assert_eq!(server.get("/users/1").await.status(), 200);
        assert_eq!(server.get("/users/2").await.status(), 429, "made-up paths make no budgets");
        assert_eq!(server.get("/posts/1").await.status(), 200);
        let server = serve(routes.layer(layer(Path))).await;
        assert_eq!(server.get("/users/1").await.status(), 200);
        assert_eq!(server.get("/users/2").await.status(), 200);
        assert_eq!(server.get("/users/2?again").await.status(), 429);
    });
}

#[test]
fn by_closure_combination_and_all_together() {
    runtime().block_on(async {
        let agent =
            FromFn::new("agent", |request| request.headers.get("user-agent")?.to_str().ok());
        let server = hello(layer(agent.and(Header::new(TENANT)))).await;
        let headers = |agent, tenant| [("user-agent", agent), ("x-tenant", tenant)];
        assert!(share(&server, &headers("a", "b"), &headers("a", "b")).await);
        assert!(!share(&server, &headers("x", "y"), &headers("x", "z")).await);
        // Where the first part ends is part of the subject.
        assert!(
            !share(
                &server,
                &headers("q", "r,header=x-tenant=s"),
                &headers("q,header=x-tenant=r", "s")
            )
            .await
        );
        let server = hello(layer(Global)).await;
        assert!(share(&server, &[("x-tenant", "a")], &[("x-tenant", "b")]).await);
    });
}

#[test]
fn hashed_subjects_differ_exactly_if_the_clear_ones_do() {
    let hashed = |secret: &[u8], bits, tenant: &str| {
        let key = HashKey::new(secret).unwrap().bits(bits).unwrap();
        let request = Request::get("/").header(TENANT, tenant).body(()).unwrap();
        let mut subject = Subject::default();
        Header::new(TENANT).hashed(key).extract(&RequestParts::of(&request), &mut subject).unwrap();
        subject.as_str().to_owned()
    };
    let (one, other) = (b"one secret of some length", b"another one of some length");
    assert_eq!(hashed(one, 128, "a"), hashed(one, 128, "a"));
    assert_ne!(hashed(one, 128, "a"), hashed(one, 128, "b"));
    assert_ne!(hashed(one, 128, "a"), hashed(other, 128, "a"));
    assert_eq!(hashed(one, 64, "a").len(), "hash=".len() + 16);
    assert!(hashed(one, 256, "a").starts_with(&hashed(one, 64, "a")));
}

//! You learn: a budget of tokens for a language model whose answers are streamed, so that their
//! cost is known at their end. An estimate is reserved first, and settled for what was used when
//! the stream has ended, also when the client disconnects in the middle.
//!
//! Run it: `cargo run -p tollgate-examples --example llm_tokens`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::convert::Infallible;
use std::error::Error;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderName, Request};
use axum::routing::post;
use axum::{Extension, Router};
use tokio_stream::StreamExt;
use tollgate::{Cost, Limit, Limiter, Quota};
use tollgate_tower::extract::Header;
use tollgate_tower::{LimitRule, RateLimitLayer, Usage};
use tower::ServiceExt;

/// 1,000 tokens an hour for each tenant, of which a request reserves 100.
fn app() -> tollgate::Result<Router> {
    let tokens = Limit::token_bucket("tokens", 1_000, Quota::per_hour(1_000))?;
    let tenant = Header::new(HeaderName::from_static("x-tenant"));
    let estimate = Cost::new(100)?;
    // The three lines: what is reserved, when it is settled, and (below) what was used.
    let rule = LimitRule::new(tokens, tenant).cost(move |_| estimate).settle_at_end();
    let layer = RateLimitLayer::builder(Limiter::in_memory()).limit_rule(rule).build()?;
    Ok(Router::new().route("/chat", post(chat)).layer(layer))
}

/// Streams an answer: a model that takes 300 tokens for each of its four words.
async fn chat(Extension(usage): Extension<Usage>) -> Body {
    let answer = tokio_stream::iter(["Limits ", "are ", "worked ", "off."]).map(move |word| {
        usage.add(300);
        Ok::<_, Infallible>(word)
    });
    Body::from_stream(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let app = app()?;
    for tenant in ["ada", "ada", "ben"] {
        let request = Request::post("/chat").header("x-tenant", tenant).body(Body::empty())?;
        let response = app.clone().oneshot(request).await?;
        let status = response.status().as_u16();
        let left = response.headers()["ratelimit"].to_str()?.to_owned();
        let text = String::from_utf8(to_bytes(response.into_body(), 4096).await?.to_vec())?;
        println!("{tenant}: {status}, {left}: {text}");
        match (tenant, status) {
            ("ada", 200) => assert!(left.starts_with(r#""tokens";r=900;"#), "{left}"),
            // Ada used 1,200 of 1,000: 200 of debt and 100 of an estimate have to come back first.
            ("ada", _) => assert!(status == 429 && left.starts_with(r#""tokens";r=0;"#), "{left}"),
            _ => assert_eq!(status, 200),
        }
    }
    Ok(())
}

#[test]
fn an_answer_may_overrun_the_budget_and_the_next_one_waits() {
    main().unwrap();
}

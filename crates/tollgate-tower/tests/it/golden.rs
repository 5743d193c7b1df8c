//! The headers of every dialect, against golden files.

use std::fmt::Write;
use std::time::Duration;

use tollgate::algorithm::{Anchor, FixedWindow, Gcra, SlidingWindow};
use tollgate::{Limit, Quota};
use tollgate_tower::{Dialect, RateLimitLayer, Reset};

use crate::support::{Server, hello, limiter, peer, runtime};

const DIALECTS: [(&str, &str, &[Dialect]); 7] = [
    ("draft_11", include_str!("golden/draft_11.txt"), &[Dialect::Draft11]),
    ("draft_07", include_str!("golden/draft_07.txt"), &[Dialect::Draft07]),
    ("draft_06", include_str!("golden/draft_06.txt"), &[Dialect::Draft06]),
    ("x_seconds", include_str!("golden/x_seconds.txt"), &[Dialect::XRateLimit(Reset::Seconds)]),
    ("x_epoch", include_str!("golden/x_epoch.txt"), &[Dialect::XRateLimit(Reset::Epoch)]),
    ("polli_03", include_str!("golden/polli_03.txt"), &[Dialect::Polli03]),
    ("off", include_str!("golden/off.txt"), &[]),
];

/// Two requests that pass, one that is denied, one half a second too early, one in time.
async fn exchange(dialects: &[Dialect]) -> String {
    let (limiter, clock) = limiter();
    let gcra = Gcra::with_burst(Quota::per_minute(30), 2).unwrap();
    let hour = Quota::new(1_000, Duration::from_secs(3_600));
    let window = FixedWindow::new(hour, Anchor::Epoch).unwrap();
    let estimate = SlidingWindow::new(Quota::per_minute(100)).unwrap();
    let layer = RateLimitLayer::builder(limiter)
        .limit(Limit::new("burst", gcra).unwrap(), peer())
        .limit(Limit::new("hourly", window).unwrap(), peer())
        .limit(Limit::new("estimate", estimate).unwrap(), peer())
        .headers(dialects.iter().copied());
    let server = hello(layer.build().unwrap()).await;
    let mut text = String::new();
    for wait_ms in [0, 0, 0, 1_500, 500] {
        clock.advance(Duration::from_millis(wait_ms));
        write(&mut text, &server).await;
    }
    text
}

async fn write(text: &mut String, server: &Server) {
    let response = server.get("/").await;
    writeln!(text, "{}", response.status().as_u16()).unwrap();
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in response.headers() {
        if name.as_str().contains("ratelimit") || name == "retry-after" {
            lines.push(format!("{name}: {}", value.to_str().unwrap()));
        }
    }
    lines.sort_unstable();
    lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
}

#[test]
fn headers_are_those_of_the_golden_files() {
    runtime().block_on(async {
        let mut wrong = String::new();
        for (name, golden, dialects) in DIALECTS {
            let story = exchange(dialects).await;
            if story != golden {
                writeln!(wrong, "== {name}.txt should be\n{story}").unwrap();
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    });
}

#[test]
fn dialects_that_share_a_field_are_refused() {
    for dialects in [
        [Dialect::Draft11, Dialect::Draft07],
        [Dialect::Draft06, Dialect::Draft11],
        [Dialect::Polli03, Dialect::XRateLimit(Reset::Epoch)],
    ] {
        let layer = RateLimitLayer::builder(limiter().0)
            .limit(crate::support::per_minute("p", 1), peer())
            .headers(dialects);
        assert_eq!(layer.build().unwrap_err().field(), Some("headers"));
    }
    let both = [Dialect::Draft11, Dialect::XRateLimit(Reset::Seconds)];
    let layer =
        RateLimitLayer::builder(limiter().0).limit(crate::support::per_minute("p", 1), peer());
    assert!(layer.headers(both).build().is_ok());
}

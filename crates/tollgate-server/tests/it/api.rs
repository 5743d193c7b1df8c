//! The tests of the HTTP API that every host of it passes, on this server in memory.

use std::time::Duration;

use tollgate::ManualClock;
use tollgate_api_tests::{
    ManualTarget, NOW, Running, Setup, Target, api_tests, api_tests_with_clock,
};
use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};

use crate::support;

api_tests!(InMemory);
api_tests_with_clock!(InMemory);

/// The server in this process.
struct InMemory;

/// A server, and its clock.
struct InProcess {
    server: support::Running,
    clock: ManualClock,
}

impl Running for InProcess {
    fn url(&self) -> String {
        self.server.url("")
    }

    async fn end(self) {
        self.server.end().await;
    }
}

impl Target for InMemory {
    type Server = InProcess;

    const HAS_METRICS: bool = true;

    async fn start(&self, setup: Setup<'_>) -> InProcess {
        let server = support::Running::of(Server::bind(config(setup)).await.unwrap());
        InProcess { server, clock: ManualClock::at(NOW) }
    }
}

impl ManualTarget for InMemory {
    async fn start_at_now(&self, setup: Setup<'_>) -> InProcess {
        let clock = ManualClock::at(NOW);
        let server = support::Running::with_clock(config(setup).policies, &clock).await;
        InProcess { server, clock }
    }

    async fn advance(&self, server: &InProcess, by: Duration) {
        server.clock.advance(by);
    }
}

fn config(setup: Setup<'_>) -> Config {
    let any = || "127.0.0.1:0".to_owned();
    let flags = [
        (Setting::Http, any()),
        (Setting::Grpc, any()),
        (Setting::Resp, any()),
        (Setting::Tokens, setup.tokens.join(",")),
        (Setting::AdminTokens, setup.admin_tokens.join(",")),
        (Setting::HashSecret, setup.hash_secret.to_owned()),
        (Setting::ReceiptSecret, setup.receipt_secret.to_owned()),
    ];
    Config::of_text(&flags, |_| None, Some(("t.yaml", setup.policies))).unwrap()
}

//! The examples of the README, verbatim, called by a real client.

use std::future::IntoFuture;
use std::net::SocketAddr;

use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic_health::pb::HealthCheckRequest;

use crate::support::{Server, connected, runtime};

const README: &str = include_str!("../../README.md");

mod on_axum {
    //! As in the README.
    include!("readme/axum.txt");
    pub(super) async fn run(listener: tokio::net::TcpListener) {
        serve(listener).await.unwrap();
    }
}

mod on_tonic {
    //! As in the README.
    include!("readme/tonic.txt");
    pub(super) async fn run(incoming: TcpIncoming) {
        serve(incoming).await.unwrap();
    }
}

#[test]
fn the_examples_are_those_of_the_readme_and_short() {
    for example in [include_str!("readme/axum.txt"), include_str!("readme/tonic.txt")] {
        assert!(README.contains(&format!("```rust,no_run\n{example}```")), "{example}");
        assert!(example.lines().filter(|line| !line.is_empty()).count() < 15);
    }
}

#[test]
fn the_axum_example_admits_a_hundred_requests() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server::at(listener.local_addr().unwrap());
        tokio::spawn(on_axum::run(listener).into_future());
        let statuses = server.statuses("/", 100).await;
        assert_eq!(statuses, [200; 100]);
        // A hundred per minute: one comes back after 600 ms, so that one of two more is refused
        // unless the requests above took so long.
        let denied = server.statuses("/", 100).await.into_iter().filter(|status| *status == 429);
        assert!(denied.count() >= 1);
    });
}

#[test]
fn the_tonic_example_admits_a_hundred_calls() {
    runtime().block_on(async {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let incoming = TcpIncoming::bind(any).unwrap();
        let address = incoming.local_addr().unwrap();
        tokio::spawn(on_tonic::run(incoming));
        let mut client = connected(address).await;
        for _ in 0..100 {
            client.check(HealthCheckRequest::default()).await.unwrap();
        }
        let mut refused = 0;
        for _ in 0..100 {
            match client.check(HealthCheckRequest::default()).await {
                Ok(_) => {}
                Err(status) => {
                    assert_eq!(status.code(), Code::ResourceExhausted);
                    refused += 1;
                }
            }
        }
        assert!(refused >= 1);
    });
}

//! Encrypted connections: who is trusted, and who is not.

use std::path::Path;

use tollgate_redis::client::Client;
use tollgate_test_servers::Redis;

use super::{count, open, soon, stored, text};

fn url(redis: &Redis, options: &[(&str, &Path)]) -> String {
    let options: Vec<String> =
        options.iter().map(|(name, path)| format!("{name}={}", path.display())).collect();
    // Unoptimised cryptography on a busy machine takes its time.
    let options = options.join("&");
    format!("rediss://127.0.0.1:{}?connect_timeout_ms=5000&{options}", redis.port())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_verified_by_the_given_authority() {
    let redis = Redis::builder().tls().start().unwrap();
    let certificates = redis.certificates().unwrap();
    let client = open(&url(&redis, &[("ca", &certificates.authority())]));
    for call in 0..100 {
        let argument = call.to_string();
        assert_eq!(soon(&client, &count("tls", &argument)).await.unwrap(), text(&argument));
    }
    // Larger than what one record holds.
    let large = "x".repeat(1_000_000);
    assert_eq!(soon(&client, &count("tls", &large)).await.unwrap(), text(&large));
    assert_eq!(stored(&redis, "tls"), 101);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_verified_gets_no_command() {
    let redis = Redis::builder().tls().start().unwrap();
    let other = Redis::builder().tls().start().unwrap();
    let foreign = other.certificates().unwrap().authority();
    let own = redis.certificates().unwrap().authority();
    let wrong_name = format!("{}&server_name=example.org", url(&redis, &[("ca", &own)]));
    for url in [url(&redis, &[("ca", &foreign)]), url(&redis, &[]), wrong_name] {
        let client = open(&url);
        let error = soon(&client, &count("tls", "x")).await.unwrap_err();
        assert!(error.is_not_sent() && error.to_string().contains("TLS"), "{error}");
    }
    assert_eq!(stored(&redis, "tls"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_shown_to_a_server_that_demands_one() {
    let redis = Redis::builder().mutual_tls().start().unwrap();
    let certificates = redis.certificates().unwrap();
    let (ca, cert) = (certificates.authority(), certificates.client_certificate());
    let client = open(&url(&redis, &[("ca", &ca)]));
    let error = soon(&client, &count("mutual", "x")).await.unwrap_err();
    assert!(error.is_not_sent(), "{error}");
    let key = certificates.client_key();
    let client = open(&url(&redis, &[("ca", &ca), ("cert", &cert), ("key", &key)]));
    assert_eq!(soon(&client, &count("mutual", "x")).await.unwrap(), text("x"));
}

#[tokio::test]
async fn files_that_are_none_are_refused_when_a_client_is_opened() {
    let redis = Redis::builder().tls().start().unwrap();
    let certificates = redis.certificates().unwrap();
    let (ca, key) = (certificates.authority(), certificates.server_key());
    let missing = Path::new("/nowhere/ca.crt");
    let cases: [(&[(&str, &Path)], &str); 4] = [
        (&[("ca", missing)], "ca"),
        (&[("ca", &key)], "ca"),
        (&[("ca", &ca), ("cert", missing), ("key", &key)], "cert"),
        (&[("ca", &ca), ("cert", &ca), ("key", &ca)], "key"),
    ];
    for (options, field) in cases {
        let error = Client::open(url(&redis, options).parse().unwrap()).unwrap_err();
        assert_eq!(error.field(), Some(field), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_client_of_an_encrypted_server_fails_in_time() {
    let redis = Redis::builder().tls().start().unwrap();
    let client = open(&format!("redis://127.0.0.1:{}?connect_timeout_ms=5000", redis.port()));
    let error = soon(&client, &count("plain", "x")).await.unwrap_err();
    assert!(error.is_not_sent() && error.to_string().contains("write rediss"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypting_client_of_a_plain_server_fails_in_time() {
    let redis = Redis::start().unwrap();
    let client = open(&format!("rediss://{}?connect_timeout_ms=2000", redis.addr()));
    let error = soon(&client, &count("plain", "x")).await.unwrap_err();
    // It waits for the rest of what it takes for a command, or refuses that.
    assert!(error.is_not_sent() && error.to_string().contains("TLS"), "{error}");
    assert_eq!(stored(&redis, "plain"), 0);
}

//! Redis with TLS: accepted and refused connections, by `redis-cli`.

use std::process::Command;

use tollgate_test_servers::resp::Client;
use tollgate_test_servers::{Certificates, Folder, Redis};

use super::{bulk, call};

/// What redis-cli prints for `GET key` with these arguments, errors included.
fn cli(redis: &Redis, arguments: &[&std::ffi::OsStr]) -> String {
    let port = redis.port().to_string();
    let mut cli = Command::new("redis-cli");
    cli.args(["-h", "127.0.0.1", "-p", &port, "--no-auth-warning", "--tls"]);
    let output = cli.args(arguments).args(["GET", "key"]).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test]
fn tls_works_and_plain_text_is_refused() {
    let redis = Redis::builder().tls().password("s3cret").start().unwrap();
    assert_eq!(redis.url(), format!("rediss://:s3cret@127.0.0.1:{}", redis.port()));
    // Without TLS, through the socket in the folder.
    assert_eq!(call(&mut redis.client().unwrap(), "SET key value").text(), Some("OK"));
    let certificates = redis.certificates().unwrap();
    let authority = certificates.authority();
    let trusting = ["--cacert".as_ref(), authority.as_os_str(), "-a".as_ref(), "s3cret".as_ref()];
    assert_eq!(cli(&redis, &trusting), "value\n");
    let without_password = cli(&redis, &["--cacert".as_ref(), authority.as_os_str()]);
    assert!(without_password.contains("NOAUTH"), "{without_password}");
    assert!(Client::connect(redis.addr()).unwrap().call(&["PING"]).is_err());
    // Another authority has not signed it.
    let elsewhere = Folder::new("certificates").unwrap();
    let other_authority = Certificates::generate(elsewhere.path()).unwrap().authority();
    let refused = cli(&redis, &["--cacert".as_ref(), other_authority.as_os_str()]);
    assert!(refused.contains("certificate verify failed"), "{refused}");
    redis.restart().unwrap();
    assert_eq!(cli(&redis, &trusting), "\n");
}

#[test]
fn a_server_can_require_client_certificates() {
    let redis = Redis::builder().mutual_tls().start().unwrap();
    assert_eq!(call(&mut redis.client().unwrap(), "SET key value").text(), Some("OK"));
    let certificates = redis.certificates().unwrap();
    let (authority, certificate, key) =
        (certificates.authority(), certificates.client_certificate(), certificates.client_key());
    let anonymous = ["--cacert".as_ref(), authority.as_os_str()];
    assert!(!cli(&redis, &anonymous).contains("value"));
    let shown = ["--cert".as_ref(), certificate.as_os_str(), "--key".as_ref(), key.as_os_str()];
    assert_eq!(cli(&redis, &[&anonymous[..], &shown].concat()), "value\n");
    assert_eq!(call(&mut redis.client().unwrap(), "GET key"), bulk("value"));
}

//! Which URLs are accepted, and the errors of others.

use std::time::Duration;

use super::{Config, Kind};
use crate::layout::KeyLayout;

fn url(text: &str) -> Config {
    text.parse().unwrap()
}

#[test]
fn a_single_server_is_read() {
    let read = url("redis://host");
    assert_eq!(read.to_string(), "redis://host:6379/0");
    assert_eq!(read.login.password, None);
    assert_eq!(read.options.connect_timeout, Duration::from_millis(200));
    assert_eq!(read.options.reply_timeout, Duration::from_secs(1));
    let read = url("rediss://ada:p%40ss%3A@[::1]:7000/3?name=tollgate&ca=/a%20b");
    assert_eq!(read.to_string(), "rediss://ada:***@[::1]:7000/3");
    assert_eq!(read.login.user.as_deref(), Some("ada"));
    assert_eq!(read.login.password.as_ref().unwrap().as_bytes(), b"p@ss:");
    assert!(read.options.tls);
    assert_eq!(read.options.tls_files.ca.as_deref(), Some("/a b"));
    assert_eq!(url("redis://:pw@h").login.user, None);
    assert!(url("redis://h?tls=true").options.tls);
    assert_eq!(url("redis://h?layout=prefix"), url("redis://h").layout(KeyLayout::ByPrefix));
}

#[test]
fn clusters_and_sentinels_are_read() {
    let read = url("redis-cluster://a:1,b,[::1]:3?tls=true");
    assert_eq!((read.kind.clone(), read.hosts.len()), (Kind::Cluster, 3));
    assert_eq!(read.to_string(), "rediss-cluster://a:1,b:6379,[::1]:3");
    assert_eq!(url("redis-cluster://a").to_string(), "redis-cluster://a:6379");
    let read = url("rediss-cluster://ada:pw@a,b?ca=/x");
    assert_eq!((read.kind.clone(), read.options.tls), (Kind::Cluster, true));
    assert_eq!(read.to_string(), "rediss-cluster://ada:***@a:6379,b:6379");
    let read = url("redis-sentinel://:pw@a,b:2/my%20master/5?sentinel_password=s&sentinel_user=u");
    assert_eq!(read.kind, Kind::Sentinel("my master".to_owned()));
    assert_eq!(read.to_string(), "redis-sentinel://:***@a:26379,b:2/my master/5");
    assert_eq!(read.options.sentinel_login.user.as_deref(), Some("u"));
}

#[test]
fn an_error_names_the_field() {
    let cases = [
        ("host", "url"),
        ("http://host", "url"),
        ("redis://", "host"),
        ("redis://a,b", "host"),
        ("redis://a:99999", "host"),
        ("redis://a/x", "database"),
        ("redis-cluster://a/1", "database"),
        ("redis-sentinel://a", "master"),
        ("redis://user@a", "password"),
        ("redis://u:%zz@a", "password"),
        ("redis://%ff:p@a", "user"),
        ("redis://a?colour=red", "url"),
        ("redis://a?connections=2", "url"),
        ("redis://a?connect_timeout_ms=x", "connect_timeout_ms"),
        ("redis://a?reply_timeout_ms=-1", "reply_timeout_ms"),
        ("redis://a?tls=yes", "tls"),
        ("rediss://a?tls=false", "tls"),
        ("rediss-cluster://a?tls=false", "tls"),
        ("rediss-cluster://a/1", "database"),
        ("redis-cluster://a?ca=/x", "tls"),
        ("redis://a?ca=/x", "tls"),
        ("rediss://a?ca=", "ca"),
        ("rediss://a?cert=/x", "key"),
        ("rediss://a?key=/x", "cert"),
        ("redis://a?name=a%20b", "name"),
        ("redis-cluster://a?layout=key", "layout"),
        ("redis-cluster://a?share=node", "share"),
        ("redis-cluster://a?share=all", "share"),
        ("redis://a?sentinel_user=u", "sentinel_user"),
        ("redis-sentinel://a/m?sentinel_user=u", "sentinel_password"),
    ];
    for (text, field) in cases {
        let error = text.parse::<Config>().unwrap_err();
        assert_eq!(error.field(), Some(field), "{text}: {error}");
    }
}

#[test]
fn no_password_shows() {
    let texts = [
        "redis://ada:s3cret@a?reply_timeout_ms=x",
        "redis://s3cret@a",
        "redis://ada:s3cret%z@a",
        "redis://a?s3cret=1",
        "redis-sentinel://:s3cret@a/m?sentinel_password=s3cret",
        "redis://ada:s3cret@a",
    ];
    for text in texts {
        let shown = match text.parse::<Config>() {
            Ok(url) => format!("{url} {url:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

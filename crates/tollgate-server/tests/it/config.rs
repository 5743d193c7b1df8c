//! The configuration: what is accepted, what is refused, and the order of sources.

use std::time::Duration;

use tollgate::store::Retries;
use tollgate_server::config::{Config, ConfigErrors, Setting, Source};

fn of_file(text: &str) -> Result<Config, ConfigErrors> {
    Config::of_text(&[], |_| None, Some(("t.yaml", text)))
}

fn of_environment(variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let find = |name: &str| {
        variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.to_string())
    };
    Config::of_text(&[], find, None)
}

#[test]
fn every_algorithm_is_accepted() {
    let config = of_file(include_str!("config/every_algorithm.yaml")).unwrap();
    let names: Vec<String> =
        config.policies.iter().map(|policy| policy.name().to_string()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "default", "e", "f", "g"]);
    let g = config.policies.find("g").unwrap();
    let keys: Vec<String> = g.limits().map(|limit| limit.key("k").to_text()).collect();
    assert_eq!(keys, ["tollgate:g.second:{k}", "tollgate:g.day:{k}"]);
    let units = g.limits_of("vip").iter().map(|named| named.limit.rule().ceiling());
    assert_eq!(units.collect::<Vec<_>>(), [50, 500]);
    let windows = g.limits_of("k").iter().map(|named| named.limit.rule().window());
    assert_eq!(windows.collect::<Vec<_>>(), [1_000_000, 86_400_000_000]);
}

#[test]
fn all_errors_are_reported_at_once_with_line_field_and_nearest_name() {
    let wrong = of_file(
        "htpp: 1.2.3.4:5
deadline: fast
policies:
  a: {limit: lots}
  b: {algoritm: gcra, limit: 1 per 1s}
  'no space': {limit: 1 per 1s}
  c: {algorithm: bucket}
  d: {algorithm: sliding_window, limit: 7 per 1s, buckets: 3}
  e: {limit: 1 per 1s, on_outage: maybe}
  f: {}
  g: {limit: 1 per 1s, hash_keys: 64}
  h: {limits: [{limit: 1 per 1s}]}
  i.j: {limit: 1 per 1s}
  i: {limits: [{name: j, limit: 1 per 1s}]}
  cl.throttle: {limit: 1 per 1s}
  k: {limit: 1 per 1s, capacity: 4}
",
    )
    .unwrap_err()
    .to_string();
    let expected = [
        "t.yaml:1: htpp: is not a field; did you mean \"http\"?",
        "t.yaml:2: deadline: \"fast\" is no duration",
        "t.yaml:4: policies.a.limit: \"lots\" is no rate",
        "t.yaml:5: policies.b.algoritm: is not a field; did you mean \"algorithm\"?",
        "t.yaml:6: policies.no space: holds ' '",
        "t.yaml:7: policies.c.algorithm: \"bucket\" is none; accepted: gcra,",
        "t.yaml:8: policies.d.",
        "t.yaml:9: policies.e.on_outage: \"maybe\" is not accepted; accepted: open, closed, local",
        "t.yaml:10: policies.f.limit: is missing",
        "t.yaml:11: policies.g.hash_keys: needs a secret",
        "t.yaml:12: policies.h.limits[0].name: is missing",
        "t.yaml:14: policies.i: shares its keys with the policy in line 13",
        "t.yaml:15: policies.cl.throttle: is reserved",
        "t.yaml:16: policies.k.capacity: is not a field",
    ];
    for error in expected {
        assert!(wrong.contains(error), "{error}\nis not in\n{wrong}");
    }
    assert_eq!(wrong.lines().count(), expected.len(), "{wrong}");
}

#[test]
fn policies_never_share_keys() {
    let cases = [
        ("cl: {limits: [{name: throttle, limit: 1 per 1s}]}", Some("CL.THROTTLE")),
        ("cl: {prefix: mine, limits: [{name: throttle, limit: 1 per 1s}]}", None),
        (
            "a: {limit: 1 per 1s, overrides: {k: {limits: [{name: b, limit: 2 per 1s}]}}}
  a.b: {limit: 1 per 1s}",
            Some("the policy in line 2"),
        ),
        (
            "a.b: {limit: 1 per 1s}
  a: {limit: 1 per 1s, overrides: {k: {limits: [{name: b, limit: 2 per 1s}]}}}",
            Some("the policy in line 2"),
        ),
        ("a: {limit: 1 per 1s, overrides: {j: {limit: 2 per 1s}, k: {limit: 3 per 1s}}}", None),
    ];
    for (policies, conflict) in cases {
        let wrong = of_file(&format!("policies:\n  {policies}\n")).err().map(|it| it.to_string());
        let expected = conflict.map(|other| format!("shares its keys with {other}; rename it"));
        match (wrong, expected) {
            (Some(wrong), Some(expected)) => assert!(wrong.contains(&expected), "{wrong}"),
            (wrong, expected) => assert_eq!(wrong, expected, "{policies}"),
        }
    }
}

#[test]
fn odd_files_are_refused_and_never_panic() {
    let deep = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
    let cases = [
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "--- 1\n--- 2\n",
        "- a\n",
        "just text",
        "a: [",
        "{",
        "policies: []",
        "policies: 3",
        "store: [a]",
        "store: a\nstore: b\n",
        "? [a]\n: b\n",
        &deep,
        "policies: {a: {limits: []}}",
        "policies: {a: {limits: 3}}",
        "policies: {a: }",
    ];
    for text in cases {
        let shown: String = text.chars().take(30).collect();
        assert!(of_file(text).is_err(), "{shown}");
    }
    assert!(of_file("").is_ok() && of_file("# nothing\n").is_ok());
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let file = Some(("t.yaml", "http: 127.0.0.1:1\ngrpc: 127.0.0.1:2\nresp: 127.0.0.1:3\n"));
    let find = |name: &str| match name {
        "TOLLGATE_HTTP" => Some("127.0.0.1:4".to_owned()),
        "TOLLGATE_GRPC" => Some("127.0.0.1:5".to_owned()),
        "BIND_ADDR" => Some("127.0.0.1:9".to_owned()),
        _ => None,
    };
    let config = Config::of_text(&[(Setting::Http, "off".to_owned())], find, file).unwrap();
    assert_eq!((config.http, config.grpc.unwrap().port()), (None, 5));
    assert_eq!(config.resp.unwrap().port(), 3);
    let source = |name| config.show().into_iter().find(|one| one.0 == name).unwrap().2;
    assert_eq!(source("http"), Source::Flag("--http".to_owned()));
    assert_eq!(source("grpc"), Source::Environment("TOLLGATE_GRPC".to_owned()));
    assert_eq!((source("resp"), source("store")), (Source::File(3), Source::BuiltIn));
}

#[test]
fn the_variables_of_the_earlier_service_are_accepted() {
    let store = |variables: &[(&str, &str)]| of_environment(variables).map(|config| config.store);
    let (pg, redis) = (("DATABASE_URL", "postgres://h/d"), ("REDIS_URL", "redis://h"));
    assert_eq!(store(&[]), Ok("memory:".to_owned()));
    assert_eq!(store(&[pg]), Ok("postgres://h/d".to_owned()));
    assert_eq!(store(&[redis]), Ok("redis://h".to_owned()));
    assert_eq!(store(&[pg, redis, ("BACKEND", "redis")]), Ok("redis://h".to_owned()));
    assert_eq!(store(&[pg, redis, ("BACKEND", "postgres")]), Ok("postgres://h/d".to_owned()));
    assert_eq!(store(&[pg, ("TOLLGATE_STORE", "memory:")]), Ok("memory:".to_owned()));
    for wrong in [&[pg, redis][..], &[("BACKEND", "redis"), pg], &[("BACKEND", "floppy")]] {
        assert_eq!(store(wrong).unwrap_err().list[0].field, "BACKEND");
    }
    let config = of_environment(&[
        ("DEFAULT_CAPACITY", "7"),
        ("DEFAULT_REFILL_RATE", "0.001"),
        ("MAX_RETRIES", "9"),
        ("BASE_BACKOFF_MS", "3"),
        ("MAX_BACKOFF_MS", "4"),
        ("BIND_ADDR", "127.0.0.1:77"),
    ])
    .unwrap();
    let default = config.policies.find("default").unwrap().limits().next().unwrap();
    assert_eq!((default.rule().ceiling(), default.rule().window()), (7, 7_000_000_000));
    let waits = (Duration::from_millis(3), Duration::from_millis(4));
    let retries = Retries::default().max_retries(9).base_backoff(waits.0).max_backoff(waits.1);
    assert_eq!(config.retries, Some(retries));
    let wrong = of_environment(&[("MAX_RETRIES", "3000000"), ("BASE_BACKOFF_MS", "1")]);
    assert_eq!(wrong.unwrap_err().list[0].field, "MAX_RETRIES");
    let wrong = of_environment(&[("MAX_BACKOFF_MS", "3600001")]);
    assert_eq!(wrong.unwrap_err().list[0].field, "MAX_BACKOFF_MS");
    assert_eq!(of_environment(&[]).unwrap().retries, None);
    assert_eq!(config.grpc.unwrap().port(), 77);
    let wrong = of_environment(&[("DEFAULT_REFILL_RATE", "fast"), ("MAX_RETRIES", "-1")]);
    let fields: Vec<String> = wrong.unwrap_err().list.into_iter().map(|one| one.field).collect();
    assert_eq!(fields, ["DEFAULT_REFILL_RATE"]);
}

#[test]
fn a_store_is_an_address_or_a_section_with_its_parameters() {
    let of = |text: &str| of_file(text).map(|config| config.store);
    assert_eq!(of("store: memory:?max_keys=10").unwrap(), "memory:?max_keys=10");
    let section = "store: {url: 'postgres://db/app?connect_timeout=1', audit: 30, table: a b}";
    let address = "postgres://db/app?connect_timeout=1&table=a%20b&audit=30";
    assert_eq!(of(section).unwrap(), address);
    assert_eq!(of("store: {url: 'memory:', memory: 2097152}").unwrap(), "memory:?memory=2097152");
    let cases = [
        (
            "store: memory:?max_keys=0",
            "t.yaml:1: store: `max_keys` is not accepted; accepted: 1 to",
        ),
        ("store: {url: 'memory:', max_keys: 0}", "t.yaml:1: store: `max_keys` is not accepted"),
        ("store: {url: 'memory:', max_kys: 1}", "store.max_kys: is not a field; did you mean"),
        ("store: {audit: 30}", "store.url: is missing; accepted: the address of a store"),
        ("store: {url: 'oracle:', audit: 30}", "store: has no scheme that is known; accepted: m"),
        ("store: [memory]", "store: is a list; accepted: a value"),
        ("store: redis://h?tls=yes", "store: `tls` is not accepted; accepted: true, false"),
        ("store: postgres://u:s3cret@h/d?audit=s3cret", "`audit` is not accepted; accepted: for"),
    ];
    for (file, expected) in cases {
        let wrong = of_file(file).unwrap_err().to_string();
        assert!(wrong.contains(expected), "{file}: {wrong}");
        assert!(!wrong.contains("s3cret"), "{wrong}");
    }
}

#[test]
fn secrets_are_never_shown() {
    let config = of_environment(&[
        ("TOLLGATE_TOKENS", "callers-secret-token"),
        ("TOLLGATE_ADMIN_TOKENS", "admins-secret-token"),
        ("TOLLGATE_HASH_SECRET", "hash-secret"),
        ("REDIS_URL", "redis://:pass-secret@h:1"),
    ])
    .unwrap();
    let text = format!("{:?} {config:?}", config.show());
    assert!(!text.contains("secret-token") && !text.contains("-secret@"), "{text}");
    assert!(!text.contains("hash-secret") && text.contains("redis://***@h:1"), "{text}");
}

#[test]
fn a_public_address_needs_tokens_or_insecure_public() {
    let public = ("TOLLGATE_HTTP", "0.0.0.0:0");
    let wrong = of_environment(&[public]).unwrap_err();
    assert_eq!(wrong.list[0].field, "TOLLGATE_HTTP");
    assert!(of_environment(&[public, ("TOLLGATE_INSECURE_PUBLIC", "true")]).is_ok());
    assert!(of_environment(&[public, ("TOLLGATE_TOKENS", "0123456789abcdef")]).is_ok());
    assert!(of_environment(&[public, ("TOLLGATE_TOKENS", "short")]).is_err());
    assert!(of_environment(&[("TOLLGATE_RESP", "[::]:0")]).is_err());
    assert!(of_environment(&[("TOLLGATE_RESP", "[::1]:0")]).is_ok());
}

/// A setting that no part reads would accept everything.
#[test]
fn every_setting_is_read() {
    // Texts: whatever they are, they are accepted.
    let texts = [Setting::HashSecret];
    for setting in Setting::ALL.into_iter().filter(|setting| !texts.contains(setting)) {
        let refused = Config::of_text(&[(setting, "?".to_owned())], |_| None, None);
        assert!(refused.is_err(), "`{}` accepts `?`: is it read?", setting.name());
    }
}

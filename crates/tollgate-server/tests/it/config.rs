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
        "t.yaml:2: deadline: \"fast\" is not a duration; write a number and a unit",
        "t.yaml:4: policies.a.limit: \"lots\" is not a rate; write such as 100/minute",
        "t.yaml:5: policies.b.algoritm: is not a field; did you mean \"algorithm\"?",
        "t.yaml:6: policies.no space: holds ' '",
        "t.yaml:7: policies.c.algorithm: \"bucket\" is not an algorithm; accepted: gcra,",
        "t.yaml:8: policies.d.",
        "t.yaml:9: policies.e.on_outage: \"maybe\" is not accepted; accepted: open, closed, local",
        "t.yaml:10: policies.f.limit: is missing",
        "t.yaml:11: policies.g.hash_keys: needs the secret of the hash, and none is set",
        "t.yaml:12: policies.h.limits[0].name: is missing",
        "t.yaml:14: policies.i: shares its keys with the policy in line 13",
        "t.yaml:15: policies.cl.throttle: is reserved",
        "t.yaml:16: policies.k.capacity: is a field of token_bucket, and the algorithm is gcra",
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
    assert!(matches!(source("resp"), Source::File(place) if (place.line, place.column) == (3, 7)));
    assert_eq!(source("store"), Source::BuiltIn);
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
    assert_eq!(fields, ["DEFAULT_REFILL_RATE", "MAX_RETRIES"]);
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
        ("store: {audit: 30}", "store.url: is missing; write the address of a store"),
        ("store: {url: 'oracle:', audit: 30}", "store: has no scheme of a store; accepted: m"),
        ("store: [memory]", "store: is a list; write a value"),
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

/// The errors of a file as lines.
fn errors_of(text: &str) -> String {
    of_file(text).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn no_mistake_hides_another() {
    let wrong = errors_of(
        "on_outage: opne
cl_throttle: perhaps
default_capacity: many
http off
tokens: short
admin_tokens: brief
deadline: fast
grpc: 127.0.0.1
deadline: 100ms
policies:
  a b: {limit: lots, burst: few}
  c: {algorithm: token-bucket, refill: often, overrides: {k: {limit: rarely}}}
  d: {limits: [3, {limit: x}, {name: n, limit: y}], overrides: {k: {limits: {n: z}}}}
  e: 3
  f: 3/s
",
    );
    let expected = [
        "t.yaml:1: on_outage: \"opne\" is not accepted; did you mean \"open\"?",
        "t.yaml:2: cl_throttle: \"perhaps\"",
        "t.yaml:3: default_capacity: \"many\" is not a whole number",
        "t.yaml:4: file: is not a field; write `name: value`",
        "t.yaml:5: tokens: holds a token that can be guessed",
        "t.yaml:6: admin_tokens: holds a token that can be guessed",
        "t.yaml:7: deadline: \"fast\" is not a duration",
        "t.yaml:8: grpc: \"127.0.0.1\" is not an IP address with a port; write such as",
        "t.yaml:9: deadline: appears twice, for the first time in line 7",
        "t.yaml:11: policies.a b: holds ' '",
        "t.yaml:11: policies.a b.limit: \"lots\" is not a rate",
        "t.yaml:11: policies.a b.burst: \"few\" is not a whole number",
        "t.yaml:12: policies.c.algorithm: \"token-bucket\" is not an algorithm; did you mean \
         \"token_bucket\"?",
        "t.yaml:12: policies.c.refill: \"often\" is not a rate",
        "t.yaml:12: policies.c.overrides.limit: ",
        "t.yaml:13: policies.d.limits[0]: is a text; write fields",
        "t.yaml:13: policies.d.limits[1].name: is missing",
        "t.yaml:13: policies.d.limits[1].limit: \"x\" is not a rate",
        "t.yaml:13: policies.d.limits[2].limit: \"y\" is not a rate",
        "t.yaml:14: policies.e: is a text; write fields",
        "t.yaml:15: policies.f: is a rate alone; write {limit: 3/s}",
    ];
    for error in expected {
        assert!(wrong.contains(error), "{error}\nis not in\n{wrong}");
    }
    assert!(!wrong.contains("short") && !wrong.contains("brief"), "{wrong}");
}

#[test]
fn an_error_shows_its_line_and_a_caret_and_never_a_secret_or_a_key() {
    let text = "tokens: [a-token-of-a-caller]
policies:
  a: {limit: 100 pre minute}
  b:
    limit: 1 per 1s
    overrides:
      a-secret-key: {limit: often}
tokns: another-token-of-a-caller
";
    let shown = format!("{:#}", of_file(text).map(|_| ()).unwrap_err());
    let expected = "error: policies.a.limit: \"100 pre minute\" is not a rate; write such as \
                    100/minute or 100 per 1m
 --> t.yaml:3:14
  |
3 |   a: {limit: 100 pre minute}
  |              ^^^^^^^^^^^^^^";
    assert!(shown.contains(expected), "{shown}");
    let of_key = " --> t.yaml:7:29
  |
7 |                             often
  |                             ^^^^^";
    assert!(shown.contains(of_key), "{shown}");
    assert!(shown.contains("error: tokns: is not a field; did you mean \"tokens\"?"), "{shown}");
    assert!(!shown.contains("of-a-caller") && !shown.contains("secret-key"), "{shown}");
}

#[test]
fn a_wrong_store_is_told_which_one_was_meant() {
    for (store, hint) in [
        ("reddis://host", "has an unknown scheme; did you mean \"redis\"?"),
        ("postgress://host/db", "has an unknown scheme; did you mean \"postgres\"?"),
        ("redis", "has no scheme; did you mean \"redis:\"?"),
    ] {
        let wrong = errors_of(&format!("store: {store}\n"));
        assert!(wrong.contains(hint), "{store}: {wrong}");
    }
    let wrong = errors_of("store: rediss-clusterr://:a-password@host\n");
    assert!(wrong.contains("rediss-cluster") && !wrong.contains("a-password"), "{wrong}");
}

#[test]
fn overrides_merge_by_the_name_of_a_limit() {
    let base = "policies:
  p:
    limits:
      - {name: second, algorithm: token_bucket, refill: 10/s, capacity: 20}
      - {name: day, algorithm: fixed_window, limit: 1000/day}
    overrides:
";
    let limits_of = |overrides: &str| {
        let file = format!("{base}      k: {overrides}\n");
        let config = of_file(&file).map_err(|wrong| wrong.to_string())?;
        let policy = config.policies.find("p").unwrap();
        let limit = |named: &tollgate_server::policy::NamedLimit| {
            let rule = named.limit.rule();
            (named.name.to_string(), rule.name().to_owned(), rule.ceiling())
        };
        Ok::<_, String>(policy.limits_of("k").iter().map(limit).collect::<Vec<_>>())
    };
    let of =
        |name: &str, algorithm: &str, ceiling| (name.to_owned(), algorithm.to_owned(), ceiling);
    let second = || of("second", "token_bucket", 20);
    let day = |ceiling| of("day", "fixed_window", ceiling);
    for (overrides, expected) in [
        ("{limits: {day: 5000/day}}", vec![second(), day(5_000)]),
        ("{limits: [{name: day, limit: 6000/day}]}", vec![second(), day(6_000)]),
        ("{limits: {day: none}}", vec![second()]),
        (
            "{limits: {second: {refill: 5/s, capacity: 7}, day: none}}",
            vec![of("second", "token_bucket", 7)],
        ),
        (
            "{limits: {second: {algorithm: gcra, limit: 9/s}}}",
            vec![of("second", "gcra", 9), day(1_000)],
        ),
    ] {
        assert_eq!(limits_of(overrides), Ok(expected), "{overrides}");
    }
    for (overrides, wrong) in [
        ("{limits: {secnd: 5/s}}", "is not a limit of the policy; did you mean \"second\"?"),
        ("{limits: {hour: none}}", "is not a limit of the policy; accepted: second, day"),
        ("{limits: {second: none, day: none}}", "drops every limit; keep one"),
        ("{limits: {second: few}}", "the fields of the limit, or `none`"),
        ("{limits: [{name: day, limit: 1/d}, {name: day, limit: 2/d}]}", "appears twice"),
        ("{limit: 100/s}", "limits: is missing; write those that differ, and `none`"),
        ("{limits: 3}", "is a text; write 1 to 16 limits by name"),
    ] {
        let found = limits_of(overrides).unwrap_err();
        assert!(found.contains(wrong), "{overrides}: {found}");
        assert_eq!(found.lines().count(), 1, "{overrides}: {found}");
    }
    let one = "policies: {p: {algorithm: sliding_log, limit: 5/m, overrides: {k: {limit: 50/m}}}}";
    let config = of_file(one).unwrap();
    let named = &config.policies.find("p").unwrap().limits_of("k")[0];
    assert_eq!((named.limit.rule().name(), named.limit.rule().ceiling()), ("sliding_log", 50));
    let wrong = errors_of("policies: {p: {limit: 5/m, overrides: {k: {limits: {p: none}}}}}");
    assert!(wrong.contains("is not a limit of the policy"), "{wrong}");
}

#[test]
fn a_policy_in_force_is_written_as_a_file_says_it() {
    let config = of_file(
        "on_outage: closed
default_refill_rate: 0.5
policies:
  p:
    shadow: true
    limits: [{name: s, limit: 10/second}, {name: d, limit: 1_000 per 1d, burst: 5}]
    overrides: {'a: key': {limits: {d: none}}, other: {limits: {s: 20/s}}}
  q: {algorithm: sliding_log, limit: 5/m, on_outage: local}
",
    )
    .unwrap();
    let written = |name: &str| config.policies.find(name).unwrap().written().to_string();
    let expected = "limits:
  - name: s
    algorithm: gcra
    limit: 10 per 1s
  - name: d
    algorithm: gcra
    limit: 1000 per 1d
    burst: 5
on_outage: closed
shadow: true
overrides:
  \"a: key\":
    limits:
      s:
        algorithm: gcra
        limit: 10 per 1s
      d: none
  other:
    limits:
      s:
        algorithm: gcra
        limit: 20 per 1s
      d:
        algorithm: gcra
        limit: 1000 per 1d
        burst: 5
";
    assert_eq!(written("p"), expected);
    // It can be read again, and means the same.
    let indented = config.policies.find("p").unwrap().written().indented(4);
    let again = of_file(&format!("policies:\n  p:\n{indented}")).unwrap();
    assert_eq!(again.policies.find("p").unwrap().written().to_string(), expected);
    assert_eq!(written("q"), "algorithm: sliding_log\nlimit: 5 per 1m\non_outage: local\n");
    let bucket = "algorithm: token_bucket\nrefill: 30 per 1m\ncapacity: 10\non_outage: closed\n";
    assert_eq!(written("default"), bucket);
}

#[test]
fn a_variable_that_is_not_a_setting_is_told_with_what_was_meant() {
    let of = |names: &[&str]| {
        Config::unknown_variables(names.iter().map(|name| (*name).to_owned())).join("\n")
    };
    let wrong = of(&["TOLLGATE_TOKNES", "TOLLGATE_DEADLIN", "TOLLGATE_XYZZYPLUGH", "PATH"]);
    for hint in [
        "TOLLGATE_TOKNES is not a setting, and is ignored; did you mean TOLLGATE_TOKENS?",
        "did you mean TOLLGATE_DEADLINE?",
        "TOLLGATE_XYZZYPLUGH is not a setting, and is ignored; `tollgate config show`",
    ] {
        assert!(wrong.contains(hint), "{wrong}");
    }
    let kubernetes = ["TOLLGATE_PORT", "TOLLGATE_PORT_8080_TCP_ADDR", "TOLLGATE_SERVICE_HOST"];
    assert_eq!(of(&kubernetes), "");
    assert_eq!(of(&["TOLLGATE_HTTP", "TOLLGATE_CONFIG", "TOLLGATE_TOKEN", "HOME"]), "");
}

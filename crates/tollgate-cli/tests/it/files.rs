//! Commands that read a configuration: `lint`, `config show`, and what `serve` warns of.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::Serving;
use crate::{TOLLGATE, exit_of, file, run};

#[test]
fn lint_shows_every_error_with_its_line_column_and_a_caret() {
    let wrong = file("wrong.yaml", "htpp: off\npolicies:\n  a: {limit: lots}\n");
    let name = wrong.to_str().unwrap();
    let (code, _, error) = exit_of(&["lint", name]);
    let expected = format!(
        "error: htpp: is not a field; did you mean \"http\"?
 --> {name}:1:1
  |
1 | htpp
  | ^^^^

error: policies.a.limit: \"lots\" is not a rate; write such as 100/minute or 100 per 1m
 --> {name}:3:14
  |
3 |   a: {{limit: lots}}
  |              ^^^^

{name}: 2 errors
"
    );
    assert_eq!((code, error.as_str()), (1, expected.as_str()));
}

#[test]
fn lint_reads_several_files_and_standard_input() {
    let wrong = file("several-wrong.yaml", "store: reddis://host\n");
    let right = file("several-right.yaml", "policies: {a: {limit: 5/second}}\n");
    let (wrong, right) = (wrong.to_str().unwrap(), right.to_str().unwrap());
    let (code, text, error) = exit_of(&["lint", wrong, right, "/nowhere.yaml"]);
    assert_eq!((code, text), (1, format!("{right}: valid, 2 policies\n")));
    assert!(error.contains("did you mean \"redis\"?"), "{error}");
    assert!(error.contains("/nowhere.yaml: cannot be read"), "{error}");
    let mut lint = Command::new(TOLLGATE);
    lint.args(["lint", "-", right]).env_clear();
    let lint = lint.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = lint.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"deadline: fast\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let (text, error) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let (text, error) = (text.unwrap(), error.unwrap());
    assert_eq!((output.status.code(), text), (Some(1), format!("{right}: valid, 2 policies\n")));
    assert!(error.contains("--> standard input:1:11"), "{error}");
    assert_eq!(exit_of(&["lint"]).0, 2);
}

#[test]
fn lint_says_what_hash_keys_lack() {
    let hashed = file("hashed.yaml", "policies: {a: {limit: 5/second, hash_keys: 64}}\n");
    let name = hashed.to_str().unwrap();
    let (fine, _, error) = run(&["lint", name]);
    for part in ["needs the secret", "`hash_secret`", "TOLLGATE_HASH_SECRET", ":1:33"] {
        assert!(!fine && error.contains(part), "{part}: {error}");
    }
    let mut lint = Command::new(TOLLGATE);
    lint.args(["lint", name]).env_clear().env("TOLLGATE_HASH_SECRET", "secret");
    assert!(lint.output().unwrap().status.success());
    let bits = file("bits.yaml", "policies: {a: {limit: 5/second, hash_keys: true}}\n");
    let error = run(&["lint", bits.to_str().unwrap()]).2;
    assert!(error.contains("\"true\" is not a number of bits; write how many"), "{error}");
}

#[test]
fn config_show_prints_sources_and_policies_in_the_words_of_a_file() {
    let text = "resp: off
tokens: a-secret-that-is-long
policies:
  api:
    limits: [{name: second, limit: 10/second}, {name: day, limit: 1000 per 1d}]
    on_outage: local
    overrides: {partner: {limits: {second: 100/second, day: none}}}
";
    let right = file("shown.yaml", text);
    let show = ["config", "show", "--config", right.to_str().unwrap(), "--http", "off"];
    let (fine, text, error) = run(&show);
    let has = |words: &[&str]| {
        text.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().starts_with(words))
    };
    assert!(fine && has(&["http", "off", "--http"]), "{text}{error}");
    assert!(has(&["resp", "off", "file,", "line", "1"]), "{text}");
    assert!(has(&["tokens", "***"]) && !text.contains("a-secret"), "{text}");
    let policies = "
policies:
  api:
    limits:
      - name: second
        algorithm: gcra
        limit: 10 per 1s
      - name: day
        algorithm: gcra
        limit: 1000 per 1d
    on_outage: local
    overrides:
      partner:
        limits:
          second:
            algorithm: gcra
            limit: 100 per 1s
          day: none
  default:
    algorithm: token_bucket
    refill: 1 per 1s
    capacity: 10
    on_outage: open
";
    assert!(text.ends_with(policies), "{text}");
    // It can be read again.
    let shown = file("shown-again.yaml", policies);
    assert!(run(&["lint", shown.to_str().unwrap()]).0);
}

#[test]
fn a_variable_that_is_not_a_setting_is_warned_of_with_what_was_meant() {
    let variables = [("TOLLGATE_TOKNES", "a-secret"), ("TOLLGATE_SERVICE_HOST", "10.0.0.1")];
    let logged = Serving::start(&[], &variables).end();
    assert!(logged.contains("TOLLGATE_TOKNES is not a setting"), "{logged}");
    assert!(logged.contains("did you mean TOLLGATE_TOKENS?"), "{logged}");
    assert!(!logged.contains("a-secret") && !logged.contains("SERVICE_HOST"), "{logged}");
    let right = file("variables.yaml", "");
    let mut lint = Command::new(TOLLGATE);
    lint.arg("lint").arg(&right).env_clear().env("TOLLGATE_DEADLIN", "1s");
    let error = String::from_utf8(lint.output().unwrap().stderr).unwrap();
    assert!(error.contains("warning: the variable TOLLGATE_DEADLIN"), "{error}");
}

#[test]
fn a_store_that_does_not_answer_is_said_at_the_start_for_every_store() {
    let credentials = [("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")];
    for store in [
        "redis://:a-password@127.0.0.1:1",
        "redis-cluster://127.0.0.1:1",
        "redis-sentinel://127.0.0.1:1/m",
        "postgres://u:a-password@127.0.0.1:1/t",
        "dynamodb://limits?region=eu-central-1&endpoint=http://127.0.0.1:1",
        "denokv+http://a-password@127.0.0.1:1",
    ] {
        let mut server = Serving::start(&["--store", store], &credentials);
        let logged = server.logged("the store does not answer");
        assert!(logged.contains("WARN") && !logged.contains("a-password"), "{store}: {logged}");
    }
    let logged = Serving::start(&[], &[]).end();
    assert!(!logged.contains("does not answer"), "{logged}");
}

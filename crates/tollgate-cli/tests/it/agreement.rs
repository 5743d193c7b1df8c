//! `lint` accepts a file if and only if `serve` does, in the same environment.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::{Ended, TOLLGATE, file};

/// A file, variables, and whether both accept it.
type Case = (&'static [u8], &'static [(&'static str, &'static str)], bool);

const HASHED: &[u8] = b"policies: {a: {limit: 5 per 1s, hash_keys: 64}}";
const PUBLIC: &[u8] = b"http: 0.0.0.0:0";
const TOKENS: (&str, &str) = ("TOLLGATE_TOKENS", "token-of-an-ordinary-caller");

const CASES: [Case; 14] = [
    (b"", &[], true),
    (HASHED, &[], false),
    (HASHED, &[("TOLLGATE_HASH_SECRET", "secret")], true),
    (PUBLIC, &[], false),
    (PUBLIC, &[TOKENS], true),
    (b"http: 0.0.0.0:0\ntokens: token-of-an-ordinary-caller", &[], true),
    (b"insecure_public: true\nhttp: 0.0.0.0:0", &[], true),
    (b"policies: {a: {limit: lots}}", &[], false),
    (b"policies: {a: {limit: 5 per 1s}}", &[("TOLLGATE_DEADLINE", "soon")], false),
    (b"htpp: off", &[], false),
    (b"store: 'floppy:'", &[], false),
    (b"tls_cert: cert.pem", &[], false),
    (b"receipt_secret: short", &[], false),
    (b"policies: {a: {limit: 5 per 1s}} # \xff", &[], false),
];

#[test]
fn lint_and_serve_accept_the_same_files() {
    for (number, (text, variables, accepted)) in CASES.into_iter().enumerate() {
        let path = file(&format!("agreement-{number}.yaml"), "");
        // Every test has a port of its own.
        let own_port: &[u8] =
            if text.windows(5).any(|word| word == b"http:") { b"" } else { b"http: 127.0.0.1:0\n" };
        std::fs::write(&path, [own_port, text].concat()).unwrap();
        let shown = String::from_utf8_lossy(text);
        let command = |arguments: &[&str]| {
            let mut command = Command::new(TOLLGATE);
            command.args(arguments).arg(&path).env_clear().envs(variables.iter().copied());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command
        };
        let linted = command(&["lint"]).output().unwrap();
        let errors = String::from_utf8_lossy(&linted.stderr);
        assert_eq!(linted.status.success(), accepted, "lint {shown:?} {variables:?}: {errors}");
        let other = ["serve", "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--config"];
        let mut server = Ended(command(&other).spawn().unwrap());
        let mut first = String::new();
        let mut stdout = BufReader::new(server.0.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        assert_eq!(first.starts_with("HTTP on "), accepted, "serve {shown:?}: {first}");
    }
}

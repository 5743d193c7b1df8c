//! Commands that ask a server: addresses, TLS, tokens and exit codes.

use std::process::Command;

use tollgate_test_servers::{Certificates, Folder, program};

use crate::support::Serving;
use crate::{exit_of, file, run};

const TOKEN: &str = "token-of-a-caller";

/// A server with TLS, and the certificates of its test.
fn encrypted(more: &[(&str, &str)], folder: &Folder) -> (Serving, Certificates) {
    let certificates = Certificates::generate(folder.path()).unwrap();
    let (cert, key) = (certificates.server_certificate(), certificates.server_key());
    let tls = [
        ("TOLLGATE_TLS_CERT", cert.to_str().unwrap()),
        ("TOLLGATE_TLS_KEY", key.to_str().unwrap()),
    ];
    (Serving::start(&[], &[&tls, more].concat()), certificates)
}

/// What a shell prints for the command of a banner.
fn shell(line: &str, environment: &[(&str, &str)]) -> String {
    let command = line.split_once(": ").unwrap().1;
    program("curl", "curl").unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).envs(environment.iter().copied());
    let output = shell.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn the_exit_code_says_what_became_of_the_request() {
    let policies = file("codes.yaml", "policies: {p: {limit: 1/day}}\n");
    let arguments = ["--config", policies.to_str().unwrap()];
    let server = Serving::start(&arguments, &[("TOLLGATE_ADMIN_TOKENS", TOKEN)]);
    let address = server.at("HTTP");
    let of = |words: &[&str]| {
        let server: &[&str] =
            if words.contains(&"--server") { &[] } else { &["--server", address] };
        let (code, text, error) = exit_of(&[&words[..1], server, &words[1..]].concat());
        println!("{words:?}: {code} {text}{error}");
        (code, error)
    };
    assert_eq!(of(&["acquire", "--policy", "p", "k"]), (0, String::new()));
    assert_eq!(of(&["acquire", "--policy", "p", "k"]), (1, String::new()));
    assert_eq!(of(&["peek", "--policy", "p", "k"]), (1, String::new()));
    assert_eq!(of(&["acquire", "--policy", "p", "k", "--cost", "2"]).0, 1, "it never passes");
    for wrong in [
        &["acquire"][..],
        &["acquire", "k", "--cost", "many"],
        &["acquire", "k", "--policy", "q"],
        &["acquire", "k", "--cert", "/nowhere"],
        &["acquire", "k", "--server", "ftp://host"],
        &["acquire", "k", "--server", "host/path"],
        &["acquire", "k", "--server", "http://host", "--ca", "/nowhere"],
        &["acquire", "k", "--ca", "/nowhere"],
        &["settle", "not-a-receipt", "--cost", "1"],
    ] {
        let (code, error) = of(wrong);
        assert!(code == 2 && !error.is_empty(), "{wrong:?}: {code} {error}");
    }
    assert!(of(&["acquire", "k", "--policy", "q"]).1.contains("unknown_policy"));
    let (code, error) = of(&["reset", "k"]);
    assert!(code == 3 && error.contains("--token or TOLLGATE_TOKEN"), "{error}");
    assert_eq!(of(&["reset", "k", "--token", TOKEN]).0, 0);
    let (code, error) = of(&["acquire", "k", "--server", "127.0.0.1:1"]);
    assert!(code == 3 && error.contains("cannot connect to 127.0.0.1:1"), "{error}");
    let resp = server.at("RESP");
    let (code, error) = of(&["acquire", "k", "--server", resp]);
    assert!(code == 3 && error.contains("does not answer as a Tollgate server"), "{error}");
    assert_eq!(of(&["bench", "--url", "resp://127.0.0.1:1", "--duration", "100ms"]).0, 3);
    assert_eq!(of(&["bench", "--url", "ftp://x"]).0, 2);
}

#[test]
fn an_address_is_a_name_a_port_or_a_url() {
    let server = Serving::start(&[], &[]);
    let port = server.at("HTTP").rsplit(':').next().unwrap();
    for address in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!(":{port}"),
        format!("http://localhost:{port}"),
        format!("http://127.0.0.1:{port}/"),
    ] {
        let (fine, text, error) = run(&["peek", "k", "--server", &address]);
        assert!(fine && text == "allowed, 10 of 10 left\n", "{address}: {text}{error}");
    }
}

#[test]
fn clients_speak_tls_and_the_banner_shows_commands_that_work() {
    let folder = Folder::new("cli-tls").unwrap();
    let (mut server, certificates) = encrypted(&[("TOLLGATE_TOKENS", TOKEN)], &folder);
    let authority = certificates.authority();
    let ca = authority.to_str().unwrap();
    let port = server.at("HTTP").rsplit(':').next().unwrap().to_owned();
    for address in [format!("https://localhost:{port}"), format!("127.0.0.1:{port}")] {
        let peek = ["peek", "k", "--server", &address, "--ca", ca, "--token", TOKEN];
        let (fine, text, error) = run(&peek);
        assert!(fine && text == "allowed, 10 of 10 left\n", "{address}: {text}{error}");
    }
    let (code, _, error) = exit_of(&["peek", "k", "--server", &format!(":{port}")]);
    assert!(code == 3 && error.contains("with TLS, write https://"), "{error}");
    let untrusted = certificates.client_certificate();
    let untrusted = ["--ca", untrusted.to_str().unwrap()];
    let address = format!("https://localhost:{port}");
    let (code, _, error) =
        exit_of(&[&["peek", "k", "--server", &address][..], &untrusted].concat());
    assert!(code == 3 && error.contains("--ca names the authority"), "{error}");
    let line = server.said("Try");
    assert!(line.starts_with("Try, with a token in TOLLGATE_TOKEN: curl --cacert "), "{line}");
    let reply = shell(&line, &[("TOLLGATE_TOKEN", TOKEN)]);
    assert!(reply.contains("\"allowed\":true"), "{line}: {reply}");
    for (scheme, name) in [("https", "HTTP"), ("grpcs", "gRPC"), ("resps", "RESP")] {
        let url = format!("{scheme}://{}", server.at(name));
        let bench = ["bench", "--server", &address, "--url", &url, "--ca", ca, "--token", TOKEN];
        let short = ["--rate", "200", "--duration", "100ms", "--connections", "2"];
        let (fine, text, error) = run(&[&bench[..], &short].concat());
        assert!(fine, "{url}: {text}{error}");
    }
}

#[test]
fn clients_present_a_certificate() {
    let folder = Folder::new("cli-mtls").unwrap();
    let authority = folder.path().join("ca.crt");
    let needs = [("TOLLGATE_TLS_CLIENT_CA", authority.to_str().unwrap())];
    let (mut server, certificates) = encrypted(&needs, &folder);
    let (cert, key) = (certificates.client_certificate(), certificates.client_key());
    let address = format!("https://{}", server.at("HTTP"));
    let ask = ["peek", "k", "--server", &address, "--ca", authority.to_str().unwrap()];
    let own = ["--cert", cert.to_str().unwrap(), "--cert-key", key.to_str().unwrap()];
    let (fine, text, error) = run(&[&ask[..], &own].concat());
    assert!(fine && text == "allowed, 10 of 10 left\n", "{text}{error}");
    assert_eq!(exit_of(&ask).0, 3);
    let line = server.said("Try: curl ");
    let line = line.replace("CLIENT.crt", own[1]).replace("CLIENT.key", own[3]);
    let reply = shell(&line, &[]);
    assert!(reply.contains("\"allowed\":true"), "{line}: {reply}");
}

#[test]
fn the_banner_of_a_server_without_http_shows_a_command_of_redis() {
    let port = ["--http", "off", "--grpc", "off", "--resp", "127.0.0.1:0"];
    let mut child = Command::new(crate::TOLLGATE);
    child.arg("serve").args(port).env_clear().env("TOLLGATE_TOKENS", TOKEN);
    let mut child = crate::Ended(child.stdout(std::process::Stdio::piped()).spawn().unwrap());
    let banner = std::io::BufReader::new(child.0.stdout.take().unwrap());
    let lines = std::io::BufRead::lines(banner).map(Result::unwrap);
    let line = lines.take(6).last().unwrap();
    assert!(line.starts_with("Try, with a token in TOLLGATE_TOKEN: redis-cli -p "), "{line}");
    assert!(line.ends_with(" -a \"$TOLLGATE_TOKEN\" TG.ACQUIRE default user:1"), "{line}");
}

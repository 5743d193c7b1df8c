//! The binary over DynamoDB: the table is migrated and examined, and two servers share it.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{ChildStdout, Command, Stdio};

use tollgate_test_servers::shared::dynamodb;

use crate::{Ended, TOLLGATE, file};

/// The binary with credentials where programs on AWS find them; emulators take any.
fn tollgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(TOLLGATE);
    command.args(arguments).env_clear();
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "s3cret-key");
    command
}

fn run(arguments: &[&str]) -> (bool, String, String) {
    let output = tollgate(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_table_is_migrated_and_examined() {
    let url = dynamodb().url("examined");
    let (fine, _, error) = run(&["doctor", "--store", &url]);
    assert!(!fine && error.contains("tollgate migrate"), "{error}");
    for _ in 0..2 {
        let (fine, text, error) = run(&["migrate", "--store", &url]);
        assert!(fine && text.contains("tables are up to date"), "{text}{error}");
    }
    let (_, text, error) = run(&["doctor", "--store", &url]);
    assert!(text.contains("30 of 100 concurrent callers passed a limit of 30"), "{text}{error}");
    assert!(text.contains("Clock: of this machine."), "{text}");
    assert!(!format!("{text}{error}").contains("s3cret"), "{text}{error}");
}

#[test]
fn a_bad_table_and_missing_credentials_are_named() {
    let (fine, _, error) = run(&["migrate", "--store", "dynamodb://x"]);
    assert!(!fine && error.contains("table"), "{error}");
    let without = Command::new(TOLLGATE)
        .args(["migrate", "--store", &dynamodb().url("unused")])
        .env_clear()
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .output()
        .unwrap();
    let error = String::from_utf8(without.stderr).unwrap();
    assert!(!without.status.success() && error.contains("credentials"), "{error}");
}

#[test]
fn credentials_are_found_in_a_profile() {
    let keys = "aws_access_key_id = test\naws_secret_access_key = s3cret-key\n";
    let profiles = file("credentials", &format!("[staging]\n{keys}"));
    let output = r#"{"Version": 1, "AccessKeyId": "test", "SecretAccessKey": "s3cret-key"}"#;
    let output = file("credentials.json", output);
    let process = format!("credential_process = /bin/cat {}\n", output.display());
    let configured = file("config", &format!("[profile by-process]\n{process}"));
    for profile in ["staging", "by-process"] {
        let url = format!("{}&profile={profile}", dynamodb().url("by-profile"));
        let output = Command::new(TOLLGATE)
            .args(["migrate", "--store", &url])
            .env_clear()
            .env("AWS_SHARED_CREDENTIALS_FILE", &profiles)
            .env("AWS_CONFIG_FILE", &configured)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !error.contains("s3cret"), "{profile}: {error}");
    }
}

/// Answers requests by their first line, one connection at a time, until the test ends.
fn answering(answers: fn(&str) -> Option<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut first = String::new();
            let (mut line, mut length) = (String::new(), 0);
            let _ = stream.read_line(&mut first);
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                let header = line.to_ascii_lowercase();
                let value = header.strip_prefix("content-length:");
                length = value.map_or(length, |value| value.trim().parse().unwrap());
                line.clear();
            }
            let _ = stream.read_exact(&mut vec![0; length]);
            let (status, body) = match answers(&first) {
                Some(body) => ("200 OK", body),
                None => ("404 Not Found", String::new()),
            };
            let _ = write!(
                stream.get_mut(),
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\
                 x-aws-ec2-metadata-token-ttl-seconds: 600\r\n\r\n{body}",
                body.len()
            );
        }
    });
    addr
}

/// Responses of the instance metadata service.
fn metadata(request: &str) -> Option<String> {
    let role = "/latest/meta-data/iam/security-credentials/";
    if request.starts_with("PUT /latest/api/token ") {
        Some("token".to_owned())
    } else if request.starts_with(&format!("GET {role} ")) {
        Some("limiter".to_owned())
    } else if request.starts_with(&format!("GET {role}limiter ")) {
        let keys = r#""AccessKeyId": "test", "SecretAccessKey": "s3cret-key", "Token": "t""#;
        let times =
            r#""LastUpdated": "2026-01-01T00:00:00Z", "Expiration": "2099-01-01T00:00:00Z""#;
        Some(format!(r#"{{"Code": "Success", "Type": "AWS-HMAC", {keys}, {times}}}"#))
    } else {
        None
    }
}

/// Responses of the token service (STS).
fn tokens(_: &str) -> Option<String> {
    let keys = "<AccessKeyId>test</AccessKeyId><SecretAccessKey>s3cret-key</SecretAccessKey>\
                <SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration>";
    let of = "AssumeRoleWithWebIdentity";
    Some(format!(
        "<{of}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{of}Result>\
         <Credentials>{keys}</Credentials><AssumedRoleUser><Arn>arn:aws:sts::1:x</Arn>\
         <AssumedRoleId>x</AssumedRoleId></AssumedRoleUser></{of}Result></{of}Response>"
    ))
}

#[test]
fn the_role_of_an_instance_or_a_web_identity_is_used() {
    let url = dynamodb().url("by-role");
    let migrate = |set: &[(&str, &str)]| {
        let mut command = Command::new(TOLLGATE);
        command.args(["migrate", "--store", &url]).env_clear();
        let output = command.envs(set.iter().copied()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{set:?}: {error}");
    };
    let machine = format!("http://{}", answering(metadata));
    migrate(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &machine)]);
    let identity = file("identity", "a.web.identity");
    let service = format!("http://{}", answering(tokens));
    migrate(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", identity.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/limiter"),
        ("AWS_ENDPOINT_URL_STS", &service),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ]);
}

#[test]
fn two_servers_share_a_limit() {
    let url = dynamodb().url("shared-by-two");
    assert!(run(&["migrate", "--store", &url]).0);
    let policies = file(
        "dynamodb.yaml",
        "deadline: 20s\npolicies: {p: {limit: 5 per 1d, on_outage: closed}}\n",
    );
    // Their standard output must stay open as long as they run.
    let servers: Vec<(Ended, Lines<BufReader<ChildStdout>>, String)> = (0..2)
        .map(|_| {
            let path = policies.to_str().unwrap();
            let place = ["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"];
            let serve = [&["serve", "--store", &url, "--config", path], &place[..]].concat();
            let child = tollgate(&serve).stdout(Stdio::piped()).spawn().unwrap();
            let mut child = Ended(child);
            let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
            let listens = lines.find_map(|line| {
                line.unwrap().strip_prefix("HTTP on ").map(|addr| format!("http://{addr}"))
            });
            (child, lines, listens.unwrap())
        })
        .collect();
    let acquired: Vec<String> = (0..8)
        .map(|turn| {
            let (_, _, server) = &servers[turn % 2];
            run(&["acquire", "--server", server, "--policy", "p", "k"]).1
        })
        .collect();
    let passed = acquired.iter().filter(|answer| answer.starts_with("allowed")).count();
    assert_eq!(passed, 5, "{acquired:?}");
    assert_eq!(acquired[4], "allowed, 0 of 5 left\n");
}

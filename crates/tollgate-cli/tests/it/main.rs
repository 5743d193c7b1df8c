//! The binary as people start it.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

/// Ends a process that a test started, whatever happens.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn serve_says_where_it_listens_and_what_to_try_and_ends_when_told_to() {
    let any = "127.0.0.1:0";
    let child = Command::new(TOLLGATE)
        .args(["serve", "--http", any, "--grpc", "off", "--resp", any])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut child = Ended(child);
    let stdout = BufReader::new(child.0.stdout.take().unwrap());
    let lines: Vec<String> = stdout.lines().take(5).map(Result::unwrap).collect();
    assert!(lines[0].starts_with("HTTP on 127.0.0.1:"), "{lines:?}");
    assert_eq!(lines[1], "gRPC off");
    assert!(lines[2].starts_with("RESP on 127.0.0.1:"), "{lines:?}");
    assert!(lines[3].contains("limits are per process"), "{lines:?}");
    assert!(lines[4].starts_with("Try: curl http://127.0.0.1:"), "{lines:?}");
    let pid = child.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn what_is_wrong_is_named() {
    let cases: [(&[&str], &str); 3] = [
        (&["--http", "nowhere"], "--http"),
        (&["--store", "floppy:"], "store"),
        (&["--store", "memory:x"], "store"),
    ];
    for (arguments, field) in cases {
        let output = Command::new(TOLLGATE).arg("serve").args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(field), "{arguments:?}: {error}");
        assert!(error.contains("accepted") || error.contains("takes nothing"), "{error}");
    }
}

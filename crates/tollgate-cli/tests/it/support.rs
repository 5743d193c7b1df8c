//! `tollgate serve` on ports that the operating system chose.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use tollgate_test_servers::on_small_disk;

use crate::{Ended, TOLLGATE};

/// `tollgate serve`, until it is dropped.
pub(crate) struct Serving {
    child: Ended,
    addresses: Vec<(String, String)>,
    stdout: BufReader<ChildStdout>,
}

impl Serving {
    /// Starts it with these arguments and this environment only.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(TOLLGATE);
        command.env_clear().envs(environment.iter().copied());
        Self::of(command, arguments)
    }

    /// Starts it with these limits of open files.
    pub(crate) fn start_within(soft: u64, hard: u64, environment: &[(&str, &str)]) -> Self {
        Self::start_limited(&format!("ulimit -Sn {soft}; ulimit -Hn {hard}"), &[], environment)
    }

    /// Starts it in a shell that has set its limits.
    pub(crate) fn start_limited(
        limits: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{limits}; exec \"$@\""), "sh", TOLLGATE]);
        command.env_clear().envs(environment.iter().copied());
        Self::of(command, arguments)
    }

    /// Starts it with a folder that is an empty disk of this many bytes, which only it sees.
    pub(crate) fn start_on_small_disk(
        (folder, bytes): (&Path, u64),
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let mut command = on_small_disk(&Command::new(TOLLGATE), folder, bytes).unwrap();
        command.env_clear().envs(environment.iter().copied());
        Self::of(command, arguments)
    }

    fn of(mut command: Command, arguments: &[&str]) -> Self {
        let any = "127.0.0.1:0";
        let child = command
            .args(["serve", "--http", any, "--grpc", any, "--resp", any])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Ended(child);
        let mut stdout = BufReader::new(child.0.stdout.take().unwrap());
        let mut addresses = Vec::new();
        // The first lines of the banner are the listeners.
        while addresses.len() < 3 {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).unwrap();
            assert!(read > 0, "it ended: {}", log(&mut child));
            let protocol = ["HTTP", "gRPC", "RESP"].into_iter().find(|name| line.contains(name));
            let address = line.split_whitespace().find(|word| word.starts_with("127.0.0.1:"));
            if let (Some(protocol), Some(address)) = (protocol, address) {
                addresses.push((protocol.to_owned(), address.to_owned()));
            }
        }
        Self { child, addresses, stdout }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// The address of a protocol: `HTTP`, `gRPC` or `RESP`.
    pub(crate) fn at(&self, protocol: &str) -> &str {
        &self.addresses.iter().find(|(name, _)| name == protocol).unwrap().1
    }

    /// The address of the HTTP interface.
    pub(crate) fn http(&self) -> String {
        format!("http://{}", self.at("HTTP"))
    }

    /// The line of its banner that starts with this, of those that were not read yet.
    pub(crate) fn said(&mut self, start: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(start) {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "{start}");
        }
        line.trim_end().to_owned()
    }

    /// The next line of its log with this, once it is written. What follows may be lost.
    pub(crate) fn logged(&mut self, part: &str) -> String {
        let log = BufReader::new(self.child.0.stderr.as_mut().unwrap());
        let mut lines = log.lines().map(Result::unwrap);
        lines.find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} is not logged"))
    }

    /// Ends it, and returns its log.
    pub(crate) fn end(mut self) -> String {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let text = log(&mut self.child);
        assert!(self.child.0.wait().unwrap().success(), "{text}");
        text
    }
}

fn log(child: &mut Ended) -> String {
    let mut text = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

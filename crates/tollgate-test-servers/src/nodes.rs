//! Several processes at once, as several nodes that share a store.
//!
//! A node is the program of the tests once more, told by an environment variable to run one of them as a
//! node: its own connections, its own clock, nothing shared but the store. Nodes begin together, because
//! each waits at a gate until all are ready.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::error::{Error, Result};

/// Set in a process that is a node: what its test needs to know.
const BRIEF: &str = "TOLLGATE_TEST_NODE";
/// What the tests' own runner prints may stand before it on a line.
const READY: &str = "node is ready";
const REPORT: &str = "node reports: ";

/// A node's view of itself: the process that a test of its own runs in.
#[derive(Debug)]
pub struct Node {
    brief: String,
}

impl Node {
    /// What this process was told, if it is a node.
    #[must_use]
    pub fn this() -> Option<Self> {
        std::env::var(BRIEF).ok().map(|brief| Self { brief })
    }

    /// What the test needs to know.
    #[must_use]
    pub fn brief(&self) -> &str {
        &self.brief
    }

    /// Waits until all nodes are ready; once before each part of a test.
    ///
    /// # Errors
    /// When whoever started the nodes has gone.
    pub fn gate(&self) -> Result<()> {
        say(READY)?;
        match std::io::stdin().read_line(&mut String::new())? {
            0 => Err(Error::new("nobody opened the gate")),
            _ => Ok(()),
        }
    }

    /// Tells whoever started the nodes; one line.
    ///
    /// # Errors
    /// When nobody listens any more.
    pub fn report(&self, text: &str) -> Result<()> {
        say(&format!("{REPORT}{text}"))
    }
}

/// Nodes that have begun.
#[derive(Debug)]
pub struct Nodes(Vec<Running>);

#[derive(Debug)]
struct Running {
    child: Child,
    gate: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Nodes {
    /// Starts the test of this name in so many processes, and lets them begin once all are ready.
    ///
    /// # Errors
    /// When one cannot be started, or ends before it is ready.
    pub fn start(count: usize, test: &str, brief: &str) -> Result<Self> {
        let nodes = (0..count).map(|_| Running::start(test, brief)).collect::<Result<_>>()?;
        let mut nodes = Self(nodes);
        nodes.open_gate()?;
        Ok(nodes)
    }

    /// Waits until all are ready once more, and lets them go on: for tests of several parts.
    ///
    /// # Errors
    /// When one ends before it is ready.
    pub fn open_gate(&mut self) -> Result<()> {
        for node in &mut self.0 {
            node.line_with(READY)?;
        }
        for node in &mut self.0 {
            node.gate.write_all(b"\n")?;
            node.gate.flush()?;
        }
        Ok(())
    }

    /// The next report of one of them.
    ///
    /// # Errors
    /// When it ended without.
    pub fn report_of(&mut self, node: usize) -> Result<String> {
        let node = self.0.get_mut(node).ok_or_else(|| Error::new("there is no such node"))?;
        node.line_with(REPORT)
    }

    /// The next report of each.
    ///
    /// # Errors
    /// When one ended without.
    pub fn reports(&mut self) -> Result<Vec<String>> {
        self.0.iter_mut().map(|node| node.line_with(REPORT)).collect()
    }

    /// Ends all of them by SIGKILL, as a crash would.
    ///
    /// # Errors
    /// When one cannot be ended.
    pub fn kill(&mut self) -> Result<()> {
        for node in &mut self.0 {
            node.child.kill()?;
            node.child.wait()?;
        }
        Ok(())
    }

    /// What one of them reported and nobody has read yet; it must have ended.
    #[must_use]
    pub fn rest_of(&mut self, node: usize) -> Vec<String> {
        let mut rest = Vec::new();
        while let Ok(report) = self.report_of(node) {
            rest.push(report);
        }
        rest
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // Whoever has ended already cannot be ended again.
        let _ = self.kill();
    }
}

impl Running {
    fn start(test: &str, brief: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", test, "--nocapture"])
            .env(BRIEF, brief)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let gate = child.stdin.take().ok_or_else(|| Error::new("a node has no input"))?;
        let said = child.stdout.take().ok_or_else(|| Error::new("a node has no output"))?;
        Ok(Self { child, gate, said: BufReader::new(said) })
    }

    /// Reads on to a line with this mark; what stands behind it.
    fn line_with(&mut self, mark: &str) -> Result<String> {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            if self.said.read_line(&mut line)? == 0 {
                return Err(Error::new(format!("a node ended early; it said: {all}")));
            }
            match line.split_once(mark) {
                // A line without its end was cut off by a crash.
                Some((_, rest)) if line.ends_with('\n') => return Ok(rest.trim_end().to_owned()),
                _ => all.push_str(&line),
            }
        }
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}

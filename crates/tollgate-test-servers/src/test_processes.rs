//! A test that runs in several processes, which share a store and nothing else.
//!
//! A test process is the program of the tests again, with an environment variable that selects its
//! role: its own connections and its own clock. The processes begin together: each waits until all
//! are ready.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::error::{Error, Result};

/// Set in a test process: the argument of its test.
const ARGUMENT: &str = "TOLLGATE_TEST_NODE";
/// The output of the test runner may precede it on a line.
const READY: &str = "process is ready";
const REPORT: &str = "process reports: ";

/// The process that runs this code, if it is a test process.
#[derive(Debug)]
pub struct TestProcess {
    argument: String,
}

impl TestProcess {
    /// This process, if it is a test process.
    #[must_use]
    pub fn this() -> Option<Self> {
        std::env::var(ARGUMENT).ok().map(|argument| Self { argument })
    }

    /// The argument of the test.
    #[must_use]
    pub fn argument(&self) -> &str {
        &self.argument
    }

    /// Waits until all processes are ready; once before each part of a test.
    ///
    /// # Errors
    /// When the process that started them has ended.
    pub fn wait_for_release(&self) -> Result<()> {
        print_line(READY)?;
        match std::io::stdin().read_line(&mut String::new())? {
            0 => Err(Error::new("the process that started this one has ended")),
            _ => Ok(()),
        }
    }

    /// Sends a line to the process that started this one.
    ///
    /// # Errors
    /// When that process has ended.
    pub fn report(&self, text: &str) -> Result<()> {
        print_line(&format!("{REPORT}{text}"))
    }
}

/// Processes that run the same test.
#[derive(Debug)]
pub struct TestProcesses(Vec<Running>);

#[derive(Debug)]
struct Running {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl TestProcesses {
    /// Starts the test of this name in `count` processes, and releases them once all are ready.
    ///
    /// # Errors
    /// When one cannot be started, or ends before it is ready.
    pub fn start(count: usize, test: &str, argument: &str) -> Result<Self> {
        let started = (0..count).map(|_| Running::start(test, argument)).collect::<Result<_>>()?;
        let mut processes = Self(started);
        processes.release()?;
        Ok(processes)
    }

    /// Waits until all are ready again, and releases them: for tests of several parts.
    ///
    /// # Errors
    /// When one ends before it is ready.
    pub fn release(&mut self) -> Result<()> {
        for process in &mut self.0 {
            process.line_with(READY)?;
        }
        for process in &mut self.0 {
            process.input.write_all(b"\n")?;
            process.input.flush()?;
        }
        Ok(())
    }

    /// The next report of one of them.
    ///
    /// # Errors
    /// When it ended without one.
    pub fn report_of(&mut self, index: usize) -> Result<String> {
        let process = self.0.get_mut(index).ok_or_else(|| Error::new("no such process"))?;
        process.line_with(REPORT)
    }

    /// The next report of each.
    ///
    /// # Errors
    /// When one ended without one.
    pub fn reports(&mut self) -> Result<Vec<String>> {
        self.0.iter_mut().map(|process| process.line_with(REPORT)).collect()
    }

    /// Ends all of them by SIGKILL, as a crash would.
    ///
    /// # Errors
    /// When one cannot be ended.
    pub fn kill(&mut self) -> Result<()> {
        for process in &mut self.0 {
            process.child.kill()?;
            process.child.wait()?;
        }
        Ok(())
    }

    /// The unread reports of one that has ended.
    #[must_use]
    pub fn rest_of(&mut self, index: usize) -> Vec<String> {
        let mut rest = Vec::new();
        while let Ok(report) = self.report_of(index) {
            rest.push(report);
        }
        rest
    }
}

impl Drop for TestProcesses {
    fn drop(&mut self) {
        // Some may have ended already.
        let _ = self.kill();
    }
}

impl Running {
    fn start(test: &str, argument: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", test, "--nocapture"])
            .env(ARGUMENT, argument)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or_else(|| Error::new("no standard input"))?;
        let output = child.stdout.take().ok_or_else(|| Error::new("no standard output"))?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    /// Reads up to a line with this mark, and returns the text after the mark.
    fn line_with(&mut self, mark: &str) -> Result<String> {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(Error::new(format!("a test process ended early; its output: {all}")));
            }
            match line.split_once(mark) {
                // A line without its end was cut off by a crash.
                Some((_, rest)) if line.ends_with('\n') => return Ok(rest.trim_end().to_owned()),
                _ => all.push_str(&line),
            }
        }
    }
}

fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{line}\n").as_bytes())?;
    Ok(out.flush()?)
}

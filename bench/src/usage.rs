//! What a server used: CPU and resident memory of its process and the children of that.

use std::fs;

use crate::Result;

/// The processes of a server.
#[derive(Clone, Debug)]
pub(crate) struct Usage(Vec<u32>);

impl Usage {
    /// Of a process and its children, as they are now.
    pub(crate) fn of(pid: u32) -> Self {
        Self(tree(pid))
    }

    /// Of this process alone.
    pub(crate) fn own() -> Self {
        Self(vec![std::process::id()])
    }

    /// Of several servers together.
    pub(crate) fn of_all(pids: impl IntoIterator<Item = u32>) -> Self {
        Self(pids.into_iter().flat_map(tree).collect())
    }

    /// Nanoseconds that all threads have run. Threads that have ended do not count; those of the
    /// servers here live as long as their process.
    ///
    /// # Errors
    /// When no process is left.
    pub(crate) fn cpu_ns(&self) -> Result<u64> {
        match self.0.iter().map(|pid| ran_ns(*pid)).sum() {
            0 => Err("the process whose CPU is counted has ended".into()),
            ran => Ok(ran),
        }
    }

    /// Resident bytes.
    pub(crate) fn resident(&self) -> u64 {
        self.0.iter().filter_map(|pid| resident(*pid)).sum()
    }
}

/// A process and all its descendants.
fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(parent) = all.get(next).copied() {
        next += 1;
        let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    all
}

fn ran_ns(pid: u32) -> u64 {
    // A process for a moment, as PostgreSQL has them, may have ended.
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let each = tasks.map(|task| {
        // A thread may have ended meanwhile.
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0)
    });
    each.sum()
}

fn resident(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_runs_and_has_memory() {
        let usage = Usage::of(std::process::id());
        assert!(usage.cpu_ns().unwrap() > 0 && usage.resident() > 0);
    }
}

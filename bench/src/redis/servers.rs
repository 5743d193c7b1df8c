//! The servers under load, and their statistics.

use std::fs;

use tollgate_test_servers::Redis;
use tollgate_test_servers::resp::Client;

use super::sample::Served;
use crate::Result;

/// One server, or the masters of a cluster, with a connection to each that carries no load.
#[derive(Debug)]
pub(super) struct Servers<'a> {
    nodes: Vec<(&'a Redis, Client)>,
}

impl<'a> Servers<'a> {
    pub(super) fn new(nodes: impl IntoIterator<Item = &'a Redis>) -> Result<Self> {
        let open = |node: &'a Redis| Ok((node, node.client().map_err(|e| e.to_string())?));
        Ok(Self { nodes: nodes.into_iter().map(open).collect::<Result<_>>()? })
    }

    /// Forgets what was counted so far.
    pub(super) fn begin(&mut self) -> Result<Served> {
        for (_, client) in &mut self.nodes {
            client.call(&["CONFIG", "RESETSTAT"]).map_err(|e| e.to_string())?;
        }
        Ok(Served { cpu_ns: self.cpu_ns()?, own_cpu_ns: own_cpu_ns()?, ..Served::default() })
    }

    /// What was done since `begin`.
    pub(super) fn end(&mut self, begun: &Served) -> Result<Served> {
        let cpu_ns = self.cpu_ns()?.saturating_sub(begun.cpu_ns);
        let own_cpu_ns = own_cpu_ns()?.saturating_sub(begun.own_cpu_ns);
        let servers = self.nodes.len();
        let mut served = Served { servers, cpu_ns, own_cpu_ns, ..Served::default() };
        for (_, client) in &mut self.nodes {
            let reply = client.call(&["INFO", "commandstats"]).map_err(|e| e.to_string())?;
            let text = reply.text().unwrap_or_default();
            served.script_calls += stat(text, "evalsha", "calls");
            served.script_us += stat(text, "evalsha", "usec");
            served.sets += stat(text, "set", "calls");
        }
        Ok(served)
    }

    /// The time that the main threads have run; all commands run there.
    fn cpu_ns(&self) -> Result<u64> {
        self.nodes.iter().map(|(node, _)| ran_ns(&format!("/proc/{}", node.pid()))).sum()
    }
}

/// The time that the threads of this process have run. All of them run as long as it does.
fn own_cpu_ns() -> Result<u64> {
    let threads = fs::read_dir("/proc/self/task").map_err(|error| error.to_string())?;
    threads
        .map(|thread| ran_ns(&thread.map_err(|error| error.to_string())?.path().to_string_lossy()))
        .sum()
}

fn ran_ns(task: &str) -> Result<u64> {
    let path = format!("{task}/schedstat");
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let first = text.split_whitespace().next().and_then(|first| first.parse().ok());
    first.ok_or_else(|| format!("{path} does not begin with a number"))
}

/// One number of one command in `INFO commandstats`; 0 for a command that was not called.
fn stat(info: &str, command: &str, field: &str) -> u64 {
    let head = format!("cmdstat_{command}:");
    let line = info.lines().find_map(|line| line.strip_prefix(&head)).unwrap_or_default();
    let value = line.split(',').find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_numbers_of_one_command() {
        let info = "# Commandstats\r\ncmdstat_set:calls=3,usec=7,usec_per_call=2.33\r\n\
                    cmdstat_evalsha:calls=12,usec=345,usec_per_call=28.75\r\n";
        assert_eq!(stat(info, "evalsha", "usec"), 345);
        assert_eq!(stat(info, "set", "calls"), 3);
        assert_eq!(stat(info, "unknown", "calls"), 0);
    }
}

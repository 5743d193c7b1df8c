//! The limit of open files (RLIMIT_NOFILE), raised to what the connections of a server need.
//!
//! The soft limit is often 1,024; a process may raise it up to its hard limit. A server with more
//! connections than files leaves clients waiting in the accept queue, so it logs a warning when the
//! hard limit is too low and open files approach it.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_server::Config;

/// Files beside the connections that are set: those reserved for health, connections to a store,
/// files, the runtime.
const OTHERS: u64 = 448;

/// How often open files are counted where they may run out.
const COUNT_INTERVAL: Duration = Duration::from_millis(500);
/// Where the open files of a process are: Linux, and others.
const FOLDERS: [&str; 2] = ["/proc/self/fd", "/dev/fd"];

/// The hard limit is too low for all connections that are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    allowed: u64,
    needed: u64,
}

/// Raises the limit of this process to what the settings need. Where the hard limit is lower, the
/// limit is the hard limit.
pub(crate) fn raise(config: &Config) -> Option<Shortage> {
    let needed = needed(config);
    let before = getrlimit(Resource::Nofile);
    if let Some(wanted) = raised(before, needed) {
        // A refusal is found below.
        let _refused = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..before });
    }
    match getrlimit(Resource::Nofile).current {
        Some(allowed) if allowed < needed => Some(Shortage { allowed, needed }),
        _ => None,
    }
}

impl Shortage {
    /// Warns each time the open files come close to the limit. Does not return.
    pub(crate) async fn watch(self) {
        let mut counting = tokio::time::interval(COUNT_INTERVAL);
        let mut is_close = false;
        loop {
            counting.tick().await;
            let open = count();
            let was_close = is_close;
            is_close = self.is_close(open, was_close);
            if is_close && !was_close {
                tracing::warn!(open, "{self}");
            }
        }
    }

    /// Whether the files are close to the limit: from four fifths on, until they are half again.
    const fn is_close(self, open: u64, was_close: bool) -> bool {
        let (half, most) = (self.allowed / 2, self.allowed - self.allowed / 5);
        open >= most || (was_close && open > half)
    }
}

/// The open files of this process; 0 where they cannot be counted.
fn count() -> u64 {
    let folder = FOLDERS.into_iter().map(Path::new).find_map(|folder| folder.read_dir().ok());
    folder.map_or(0, |entries| u64::try_from(entries.count()).unwrap_or(u64::MAX))
}

fn needed(config: &Config) -> u64 {
    let listeners = [config.http, config.grpc, config.resp].into_iter().flatten();
    let each = u64::try_from(config.connections).unwrap_or(u64::MAX);
    listeners.fold(OTHERS, |sum, _| sum.saturating_add(each))
}

/// The new soft limit, if it has to change. It is never lowered.
fn raised(before: Rlimit, needed: u64) -> Option<u64> {
    let current = before.current?;
    let wanted = before.maximum.map_or(needed, |maximum| needed.min(maximum));
    (wanted > current).then_some(wanted)
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allowed, needed } = self;
        write!(
            f,
            "open files are close to their limit of {allowed}, and all the connections that are \
             allowed (the setting `connections`, per listener) need {needed}: clients beyond the \
             limit wait to be accepted. Raise the hard limit RLIMIT_NOFILE (LimitNOFILE= of \
             systemd, --ulimit nofile= of docker run, ulimit -Hn of a shell), or lower \
             `connections`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_close_to_the_limit_from_four_fifths_on_until_they_are_half() {
        let shortage = Shortage { allowed: 100, needed: 200 };
        let mut is_close = false;
        let steps = [(79, false), (80, true), (95, true), (51, true), (50, false), (79, false)];
        for (open, expected) in steps {
            is_close = shortage.is_close(open, is_close);
            assert_eq!(is_close, expected, "{open}");
        }
        assert!(count() > 2, "this process has open files");
    }

    #[test]
    fn the_limit_is_raised_as_needed_up_to_the_hard_limit_and_never_lowered() {
        let of = |current, maximum| raised(Rlimit { current, maximum }, 5_000);
        assert_eq!(of(Some(1_024), Some(1 << 20)), Some(5_000));
        assert_eq!(of(Some(1_024), None), Some(5_000));
        assert_eq!(of(Some(1_024), Some(4_096)), Some(4_096));
        for fine in [Some(5_000), Some(1 << 20), None] {
            assert_eq!(of(fine, None), None);
        }
        assert_eq!(of(Some(1_024), Some(1_024)), None);
    }
}

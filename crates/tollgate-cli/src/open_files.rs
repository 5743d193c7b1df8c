//! The limit of open files: raised to what the connections of a server need, as far as it may be.
//!
//! Operating systems give a process few by default (often 1,024), for the sake of programs from another
//! time, and let it ask for more, up to a hard limit. Who accepts more connections than there are files
//! leaves clients waiting in a queue, so that a limit which does not suffice is told at start.

use core::fmt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_server::Config;

/// For everything that is no connection of a client: connections to a store, files, the runtime.
const OTHERS: u64 = 256;

/// There are not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    allowed: u64,
    needed: u64,
}

/// Allows this process as many open files as the settings need.
///
/// # Errors
/// When that is more than it may have; then it has as many as it may.
pub(crate) fn allow(config: &Config) -> Result<(), Shortage> {
    let needed = needed(config);
    let before = getrlimit(Resource::Nofile);
    if let Some(wanted) = raised(before, needed) {
        // What is not granted is found missing below.
        let _refused = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..before });
    }
    match getrlimit(Resource::Nofile).current {
        Some(allowed) if allowed < needed => Err(Shortage { allowed, needed }),
        _ => Ok(()),
    }
}

fn needed(config: &Config) -> u64 {
    let listeners = [config.http, config.grpc, config.resp].into_iter().flatten();
    let each = u64::try_from(config.connections).unwrap_or(u64::MAX);
    listeners.fold(OTHERS, |sum, _| sum.saturating_add(each))
}

/// What the soft limit is to be, if it is to change. It is never lowered.
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
            "this process may have {allowed} open files, and all the connections that are allowed \
             (the setting `connections`, per listener) need {needed}: clients beyond that wait to be \
             accepted. Raise the hard limit RLIMIT_NOFILE (LimitNOFILE= of systemd, --ulimit nofile= \
             of docker run, ulimit -Hn of a shell), or lower `connections`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_needed_and_allowed_and_never_lowered() {
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

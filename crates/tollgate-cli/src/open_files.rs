//! The limit of open files (RLIMIT_NOFILE), raised to what the connections of a server need.
//!
//! The soft limit is often 1,024; a process may raise it up to its hard limit. A server with more
//! connections than files leaves clients waiting in the accept queue, so it logs a warning at start
//! when the hard limit is too low.

use core::fmt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_server::Config;

/// Files beside the connections that are set: those reserved for health, connections to a store,
/// files, the runtime.
const OTHERS: u64 = 448;

/// The hard limit is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    allowed: u64,
    needed: u64,
}

/// Raises the limit of this process to what the settings need.
///
/// # Errors
/// When the hard limit is lower; then the limit is the hard limit.
pub(crate) fn raise(config: &Config) -> Result<(), Shortage> {
    let needed = needed(config);
    let before = getrlimit(Resource::Nofile);
    if let Some(wanted) = raised(before, needed) {
        // A refusal is found below.
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
            "this process may have {allowed} open files, and all the connections that are allowed \
             (the setting `connections`, per listener) need {needed}: clients beyond that wait to \
             be accepted. Raise the hard limit RLIMIT_NOFILE (LimitNOFILE= of systemd, \
             --ulimit nofile= of docker run, ulimit -Hn of a shell), or lower `connections`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

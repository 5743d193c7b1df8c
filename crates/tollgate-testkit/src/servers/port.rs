//! Ports that nobody else is given while their server is down.
//!
//! The kernel hands out ports for outgoing connections and for port 0 from one range. A server's
//! port from there could be taken by any connection while the server restarts, and a client that
//! knocks at it meanwhile may even connect to itself. So ports come from below that range, and a lock
//! keeps other processes that use this module away. Programs that do not are seen by binding.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use super::error::{Error, Result};
use super::root::{root, try_lock};

const LOWEST: u16 = 15_000;
/// Where the kernel's range starts unless it was changed.
const USUAL_END: u16 = 32_768;

/// A port on 127.0.0.1 that is reserved until this is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _reserved: File,
}

impl Port {
    /// Reserves a port to which nothing is bound.
    ///
    /// # Errors
    /// When the folder for temporary files cannot be written, or every port is taken.
    pub fn reserve() -> Result<Self> {
        let folder = root()?.join("ports");
        fs::create_dir_all(&folder).map_err(|error| Error::from(error).during(folder.display()))?;
        let end = end();
        let count = end.saturating_sub(LOWEST).max(1);
        // Processes that start together begin at different places.
        let start = RandomState::new().hash_one("port") % u64::from(count);
        let start = u16::try_from(start).unwrap_or_default();
        let numbers = (LOWEST.saturating_add(start)..end).chain(LOWEST..end);
        for number in numbers {
            let Some(reserved) = try_lock(&folder.join(number.to_string())) else {
                continue;
            };
            if TcpListener::bind(at(number)).is_ok() {
                return Ok(Self { number, _reserved: reserved });
            }
        }
        Err(Error::new(format!("every port from {LOWEST} to {end} is taken")))
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Its address on this machine.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        at(self.number)
    }
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The first port that the kernel hands out by itself.
fn end() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    // Where the range is so wide that little lies below it, there is no better place.
    first.filter(|first| *first >= LOWEST + 1_000).unwrap_or(USUAL_END)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_reserved_twice() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let numbers: BTreeSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
    }
}

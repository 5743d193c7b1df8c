//! Ports that stay reserved while their server is down.
//!
//! The kernel assigns ports for outgoing connections and for port 0 from one range. Any connection
//! could take a server's port from that range while the server restarts, and a client that connects
//! to the port meanwhile may even connect to itself. So ports come from below that range, and a
//! lock excludes other processes that use this module. Other programs are detected by binding.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::time::Duration;

use socket2::SockRef;

use super::error::{AtPath, Error, Result};
use super::root::{root, try_lock};
use super::wait::until_ok;

const LOWEST: u16 = 15_000;
/// The port is reserved: only an old connection, or the copy of a socket, can prevent listening.
pub(super) const LISTEN: Duration = Duration::from_secs(5);
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
        fs::create_dir_all(&folder).at(&folder)?;
        let end = end();
        let count = end.saturating_sub(LOWEST).max(1);
        // Processes that start together search from different numbers.
        let start = RandomState::new().hash_one("port") % u64::from(count);
        let start = u16::try_from(start).unwrap_or_default();
        let numbers = (LOWEST.saturating_add(start)..end).chain(LOWEST..end);
        for number in numbers {
            let Some(reserved) = try_lock(&folder.join(number.to_string())) else {
                continue;
            };
            if let Ok(listener) = TcpListener::bind(at(number)) {
                // Closing is not enough: a process that is just being started by another thread has
                // a copy of every socket until it becomes its program, and would keep this one
                // listening.
                let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
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

    /// Listens there.
    ///
    /// # Errors
    /// When a program that does not use this module has taken the port.
    pub fn listen(&self) -> Result<TcpListener> {
        listen(self.addr())
    }

    /// Its address on this machine.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        at(self.number)
    }
}

/// Listens at the address of a port that is reserved.
pub(super) fn listen(addr: SocketAddr) -> Result<TcpListener> {
    until_ok(LISTEN, || TcpListener::bind(addr).map_err(Error::from))
}

fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The first port that the kernel assigns.
fn end() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|first| first.parse().ok());
    // A range that leaves few ports below it cannot be avoided.
    first.filter(|first| *first >= LOWEST + 1_000).unwrap_or(USUAL_END)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Starting programs copies sockets for a moment.
    #[test]
    fn a_reserved_port_can_be_listened_at_while_programs_start() {
        let starting = std::thread::spawn(|| {
            for _ in 0..200 {
                assert!(std::process::Command::new("true").status().unwrap().success());
            }
        });
        for _ in 0..200 {
            let port = Port::reserve().unwrap();
            drop(port.listen().unwrap());
        }
        starting.join().unwrap();
    }

    #[test]
    fn no_port_is_reserved_twice() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let numbers: BTreeSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
    }
}

//! The shortest way to the server and back: one thread, one blocking socket, one PING at a time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::sample::Run;
use crate::Result;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

/// A connection for PING.
#[derive(Debug)]
pub(super) struct Ping(TcpStream);

impl Ping {
    pub(super) fn new(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Self(stream))
    }

    pub(super) fn run(&mut self, time: Duration) -> Result<Run> {
        let start = Instant::now();
        let mut run = Run::default();
        let mut before = start;
        while before - start < time {
            let mut pong = [0; PONG.len()];
            self.0.write_all(PING).map_err(|error| error.to_string())?;
            self.0.read_exact(&mut pong).map_err(|error| error.to_string())?;
            if pong != PONG {
                return Err("PING was not answered by PONG".into());
            }
            let after = Instant::now();
            run.decisions += 1;
            run.latencies.push(u32::try_from((after - before).as_nanos()).unwrap_or(u32::MAX));
            before = after;
        }
        run.wall = start.elapsed();
        Ok(run)
    }
}

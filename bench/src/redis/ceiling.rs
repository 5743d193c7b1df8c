//! The ceiling: a bare pipelined loop of the very calls that Tollgate makes for lone callers.
//!
//! One thread, one connection per server, blocking sockets, commands encoded beforehand, replies
//! counted and thrown away. A window of commands is under way on each connection; half of it is
//! written while the server works on the other half.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::sample::Run;
use super::wire::{Commands, Counter};
use crate::Result;

/// Windows that are tried before the first round; the fastest is used.
const WINDOWS: [usize; 4] = [64, 256, 1_024, 2_048];
/// How long each is tried, and how often: in turns, so that a disturbance does not pick the window.
const TRIAL: Duration = Duration::from_millis(100);
const TRIALS: usize = 5;

/// A connection per server, with the commands for it.
#[derive(Debug)]
pub(super) struct Ceiling {
    links: Vec<Link>,
    half: usize,
}

#[derive(Debug)]
struct Link {
    stream: TcpStream,
    commands: Commands,
    next: usize,
    counter: Counter,
    /// Replies beyond those that were waited for.
    ahead: usize,
    buffer: Vec<u8>,
}

impl Ceiling {
    /// Connects, and finds the window that helps most.
    pub(super) fn new(loads: Vec<(SocketAddr, Commands)>) -> Result<Self> {
        let links = loads.into_iter().map(|(addr, commands)| Link::new(addr, commands));
        let mut ceiling = Self { links: links.collect::<Result<_>>()?, half: 1 };
        let mut best = (0.0, 1);
        for window in std::iter::repeat_n(WINDOWS, TRIALS).flatten() {
            ceiling.half = window / 2;
            let run = ceiling.run(TRIAL)?;
            let per_second = run.decisions as f64 / run.wall.as_secs_f64();
            if per_second > best.0 {
                best = (per_second, ceiling.half);
            }
        }
        ceiling.half = best.1;
        Ok(ceiling)
    }

    /// Commands under way on each connection.
    pub(super) const fn window(&self) -> usize {
        self.half * 2
    }

    pub(super) fn run(&mut self, time: Duration) -> Result<Run> {
        let start = Instant::now();
        let half = self.half;
        let mut decisions = 0;
        for link in &mut self.links {
            link.write(half)?;
        }
        while start.elapsed() < time {
            for link in &mut self.links {
                link.write(half)?;
                link.wait_for(half)?;
                decisions += half as u64;
            }
        }
        for link in &mut self.links {
            link.wait_for(half)?;
            decisions += half as u64;
        }
        Ok(Run { decisions, wall: start.elapsed(), ..Run::default() })
    }
}

impl Link {
    fn new(addr: SocketAddr, commands: Commands) -> Result<Self> {
        let stream = TcpStream::connect(addr).map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (counter, buffer) = (Counter::default(), vec![0; 64 * 1024]);
        Ok(Self { stream, commands, next: 0, counter, ahead: 0, buffer })
    }

    fn write(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            let part = count.min(self.commands.len() - self.next);
            let bytes = self.commands.slice(self.next, part);
            self.stream.write_all(bytes).map_err(|error| error.to_string())?;
            self.next = (self.next + part) % self.commands.len();
            count -= part;
        }
        Ok(())
    }

    fn wait_for(&mut self, count: usize) -> Result<()> {
        while self.ahead < count {
            let read = self.stream.read(&mut self.buffer).map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            self.ahead += self.counter.feed(&self.buffer[..read])?;
        }
        self.ahead -= count;
        Ok(())
    }
}

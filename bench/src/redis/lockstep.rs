//! One command per connection at a time, without pipelining: how most clients are used.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::callers::{Caller, Said};
use super::wire::{Commands, Counter};
use crate::Result;

/// A connection of its own, on which every command waits for the reply to the one before.
#[derive(Debug)]
pub(super) struct Lockstep {
    stream: TcpStream,
    commands: Arc<Commands>,
    next: usize,
    stride: usize,
    counter: Counter,
    buffer: Vec<u8>,
}

/// Connections whose commands have distinct keys.
pub(super) fn connect(
    runtime: &Runtime,
    addr: SocketAddr,
    commands: &Arc<Commands>,
    count: usize,
) -> Result<Vec<Lockstep>> {
    let connect = |next: usize| async move {
        let stream = TcpStream::connect(addr).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (counter, buffer) = (Counter::default(), vec![0; 4 * 1024]);
        let commands = Arc::clone(commands);
        Ok(Lockstep { stream, commands, next, stride: count, counter, buffer })
    };
    (0..count).map(|next| runtime.block_on(connect(next))).collect()
}

impl Caller for Lockstep {
    async fn call(&mut self) -> Result<Said> {
        let command = self.commands.slice(self.next % self.commands.len(), 1);
        self.next += self.stride;
        self.stream.write_all(command).await.map_err(|error| error.to_string())?;
        loop {
            let read = self.stream.read(&mut self.buffer).await;
            let read = read.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            if self.counter.feed(&self.buffer[..read])? > 0 {
                return Ok(Said::Decided);
            }
        }
    }
}

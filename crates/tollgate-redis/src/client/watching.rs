//! Sessions as the store asks for them.

use tollgate_core::{BoxFuture, Result};

use super::cluster::Following;
use super::{Client, Servers, Session};
use crate::transport::{self, Command, Reply, Sessions};

impl Sessions for Client {
    fn open<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Box<dyn transport::Session>>> {
        Box::pin(async move {
            let session = self.session(key).await?;
            Ok(match &self.servers {
                Servers::One(_) => Box::new(session) as Box<dyn transport::Session>,
                Servers::Many(cluster) => Box::new(Following::new(cluster.clone(), session)),
            })
        })
    }
}

impl transport::Session for Session {
    fn run<'a>(&'a mut self, commands: &'a [Command]) -> BoxFuture<'a, Result<Vec<Reply>>> {
        Box::pin(async move {
            let words: Vec<Vec<&[u8]>> =
                commands.iter().map(|command| command.words().collect()).collect();
            let words: Vec<&[&[u8]]> = words.iter().map(Vec::as_slice).collect();
            self.commands(&words).await
        })
    }
}

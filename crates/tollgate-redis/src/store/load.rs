//! Reading states, without changing anything.

use tollgate_core::store::{Loaded, TimeSource};
use tollgate_core::{Charge, Error, Now, Result, State};

use super::Wire;
use super::reply::{Numbers, unreadable};
use crate::meaning::foreign;
use crate::text::state_text;
use crate::transport::{Args, Call, Reply, Transport};

impl<T: Transport> Wire<T> {
    pub(super) async fn load(&self, charges: &[Charge<'_>], at: TimeSource) -> Result<Loaded> {
        let names: Vec<String> =
            charges.iter().map(|charge| self.layout.name(&charge.key())).collect();
        let (now, values) = self.read(&names, at).await?;
        let states = values.into_iter().map(|value| match value {
            Reply::Nil => Ok(None),
            value => match state_text(&value) {
                Some(text) => State::from_text(&text).map(Some),
                None => Err(foreign().not_sent()),
            },
        });
        Ok(Loaded::new(now, states.collect::<Result<_>>()?))
    }

    /// The raw values of names, and the latest instant of the servers that hold them.
    pub(super) async fn read(&self, names: &[String], at: TimeSource) -> Result<(Now, Vec<Reply>)> {
        let mut groups: Vec<(Option<u16>, Vec<usize>)> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let slot = self.slot(name);
            match groups.iter_mut().find(|(other, _)| *other == slot) {
                Some((_, indices)) => indices.push(index),
                None => groups.push((slot, vec![index])),
            }
        }
        let calls: Vec<Call> =
            groups.iter().map(|(_, indices)| self.load_call(names, indices, at)).collect();
        let replies = self.run_all(&calls).await;
        let mut values: Vec<Reply> = names.iter().map(|_| Reply::Nil).collect();
        let mut latest = 0;
        for ((_, indices), reply) in groups.into_iter().zip(replies) {
            let reply = reply.and_then(Reply::ok).map_err(Error::not_sent)?;
            let mut numbers = Numbers::of(reply)?;
            latest = latest.max(numbers.now().reading());
            for index in indices {
                let value = numbers.reply()?;
                *values.get_mut(index).ok_or_else(unreadable)? = value;
            }
        }
        Ok((Now::at(latest), values))
    }

    fn load_call(&self, names: &[String], indices: &[usize], at: TimeSource) -> Call {
        let mut args = Args::default();
        match at {
            TimeSource::StoreClock => args.integer(-1),
            TimeSource::Given(at) => args.unsigned(Now::at(at).reading()),
        }
        let names = indices.iter().filter_map(|index| names.get(*index).cloned()).collect();
        Call::new(self.scripts.load.clone(), names, args)
    }
}

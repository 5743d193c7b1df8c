//! Reading states, without changing anything.

use tollgate_core::store::{CallContext, CallPermit, Loaded, TimeSource};
use tollgate_core::{Charge, Error, Now, Result, State};

use super::reply::{Numbers, unreadable};
use super::{Inner, ScriptRunner};
use crate::error_reply::{corrupt, is_try_again};
use crate::text::state_text;
use crate::transport::{Args, Call, Reply, Transport};

impl<T: Transport> Inner<T> {
    pub(super) async fn load(&self, charges: &[Charge<'_>], cx: CallContext<'_>) -> Result<Loaded> {
        let runner = &self.runner;
        let names: Vec<String> =
            charges.iter().map(|charge| runner.layout.name(&charge.key())).collect();
        cx.waiting();
        let permit = runner.permit(|| cx.others_served()).await;
        let (now, values) = runner.read(&names, cx.time()).await?;
        permit.iter().for_each(CallPermit::answered);
        let states = values.into_iter().map(|value| match value {
            Reply::Nil => Ok(None),
            value => match state_text(&value) {
                Some(text) => State::from_text(&text).map(Some),
                None => Err(corrupt().not_sent()),
            },
        });
        Ok(Loaded::new(now, states.collect::<Result<_>>()?))
    }
}

impl<T: Transport> ScriptRunner<T> {
    /// The raw values of names, and the latest instant of the servers that hold them.
    pub(super) async fn read(&self, names: &[String], at: TimeSource) -> Result<(Now, Vec<Reply>)> {
        let mut slots: Vec<Option<u16>> = Vec::new();
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let slot = self.slot(name);
            match slots.iter().position(|other| *other == slot).and_then(|at| groups.get_mut(at)) {
                Some(group) => group.push(index),
                None => {
                    slots.push(slot);
                    groups.push(vec![index]);
                }
            }
        }
        let replies = self.read_groups(&groups, names, at).await;
        // A slot is being moved, and its keys are on two nodes: each of them is on one.
        let is_split =
            |(group, reply): &(Vec<usize>, Result<Reply>)| group.len() > 1 && is_try_again(reply);
        let (split, mut replies): (Vec<_>, Vec<_>) =
            groups.into_iter().zip(replies).partition(is_split);
        if !split.is_empty() {
            let single = split.into_iter().flat_map(|(group, _)| group).map(|index| vec![index]);
            let single: Vec<Vec<usize>> = single.collect();
            let others = self.read_groups(&single, names, at).await;
            replies.extend(single.into_iter().zip(others));
        }
        let mut values: Vec<Reply> = names.iter().map(|_| Reply::Nil).collect();
        let mut latest = 0;
        for (indices, reply) in replies {
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

    async fn read_groups(
        &self,
        groups: &[Vec<usize>],
        names: &[String],
        at: TimeSource,
    ) -> Vec<Result<Reply>> {
        let calls: Vec<Call> =
            groups.iter().map(|indices| self.load_call(names, indices, at)).collect();
        let mut replies: Vec<Result<Reply>> = calls.iter().map(|_| Err(unreadable())).collect();
        self.send_all(&calls, |index, reply| {
            if let Some(place) = replies.get_mut(index) {
                *place = reply;
            }
        })
        .await;
        replies
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

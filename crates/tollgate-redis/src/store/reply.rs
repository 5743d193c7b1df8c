//! Replies of the scripts: integers, the instant first.

use tollgate_core::{Code, Error, Now, QuotaId, Result, State, Words};

use crate::error_reply::error_of;
use crate::transport::Reply;

/// The elements of a reply, read one after another.
#[derive(Debug)]
pub(super) struct Numbers {
    now: Now,
    rest: std::vec::IntoIter<Reply>,
}

/// What a script found under a key.
#[derive(Debug)]
pub(super) enum KeyReply {
    /// A state of the quota; none for a fresh key.
    State(Option<State>),
    /// The state of another quota, or another value: nothing was done.
    Another,
    /// The write was refused because memory is full.
    Full,
}

impl Numbers {
    pub(super) fn of(reply: Reply) -> Result<Self> {
        let Reply::List(list) = reply else { return Err(unreadable()) };
        let mut numbers = Self { now: Now::at(0), rest: list.into_iter() };
        let now = numbers.integer()?;
        numbers.now = Now::at(u64::try_from(now).map_err(|_| unreadable())?);
        Ok(numbers)
    }

    /// The instant of the decision.
    pub(super) const fn now(&self) -> Now {
        self.now
    }

    /// The next integer.
    pub(super) fn integer(&mut self) -> Result<i64> {
        match self.rest.next() {
            Some(Reply::Integer(number)) => Ok(number),
            _ => Err(unreadable()),
        }
    }

    /// The next reply, whatever it is.
    pub(super) fn reply(&mut self) -> Result<Reply> {
        self.rest.next().ok_or_else(unreadable)
    }

    /// What was found under the next key, which is charged under this quota.
    pub(super) fn found(&mut self, quota_id: QuotaId) -> Result<KeyReply> {
        let count = match self.integer()? {
            -1 => return Ok(KeyReply::Another),
            -2 => return Ok(KeyReply::Full),
            0 => return Ok(KeyReply::State(None)),
            count => count,
        };
        let word = |_| u64::try_from(self.integer()?).map_err(|_| unreadable());
        let words: Vec<u64> = (0..count).map(word).collect::<Result<_>>()?;
        Ok(KeyReply::State(Some(State::new(quota_id, Words::new(&words)))))
    }
}

/// A reply that no script gives.
pub(super) fn unreadable() -> Error {
    Error::new(Code::StoreUnavailable, "Redis gave a reply that no script of Tollgate gives")
}

/// A server without memory left.
pub(super) fn full() -> Error {
    error_of("OOM")
}

//! Replies of the scripts: integers, the instant first.

use tollgate_core::{Code, Error, Now, QuotaId, Result, State, Words};

use crate::integers::Integers;
use crate::transport::Reply;

/// The integers of a reply, read one after another.
#[derive(Debug)]
pub(super) struct Numbers {
    now: Now,
    rest: Rest,
}

/// What has not been read yet.
#[derive(Debug)]
enum Rest {
    /// Only integers, and how many have been read.
    Integers(Integers, usize),
    List(std::vec::IntoIter<Reply>),
}

/// So many words are read without an allocation.
const FEW: usize = 4;

/// What a script found under a key.
#[derive(Debug)]
pub(super) enum Found {
    /// A state of the quota; none for a fresh key.
    State(Option<State>),
    /// The state of another quota, or something else: nothing was done.
    Another,
    /// The write was refused for want of memory.
    Full,
    /// The key is on another node: nothing was done.
    Away,
}

impl Numbers {
    pub(super) fn of(reply: Reply) -> Result<Self> {
        let rest = match reply {
            Reply::Integers(integers) => Rest::Integers(integers, 0),
            Reply::List(list) => Rest::List(list.into_iter()),
            _ => return Err(unreadable()),
        };
        let mut numbers = Self { now: Now::at(0), rest };
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
        let next = match &mut self.rest {
            Rest::Integers(integers, read) => {
                let number = integers.get(*read).copied();
                *read += 1;
                number
            }
            Rest::List(list) => match list.next() {
                Some(Reply::Integer(number)) => Some(number),
                _ => None,
            },
        };
        next.ok_or_else(unreadable)
    }

    /// The next reply, whatever it is.
    pub(super) fn reply(&mut self) -> Result<Reply> {
        match &mut self.rest {
            Rest::Integers(..) => self.integer().map(Reply::Integer),
            Rest::List(list) => list.next().ok_or_else(unreadable),
        }
    }

    /// What was found under the next key, which is charged under a quota of this shape.
    pub(super) fn found(&mut self, quota_id: QuotaId) -> Result<Found> {
        let count = match self.integer()? {
            -1 => return Ok(Found::Another),
            -2 => return Ok(Found::Full),
            -3 => return Ok(Found::Away),
            0 => return Ok(Found::State(None)),
            count => usize::try_from(count).map_err(|_| unreadable())?,
        };
        let words = self.words(count)?;
        Ok(Found::State(Some(State { quota_id, words })))
    }

    fn words(&mut self, count: usize) -> Result<Words> {
        let mut word = || u64::try_from(self.integer()?).map_err(|_| unreadable());
        let mut few = [0; FEW];
        let Some(places) = few.get_mut(..count) else {
            let many: Result<Vec<u64>> = (0..count).map(|_| word()).collect();
            return many.map(Words::from);
        };
        for place in &mut *places {
            *place = word()?;
        }
        Ok(Words::new(places))
    }
}

/// A server that does not answer as the scripts do.
pub(super) fn unreadable() -> Error {
    Error::new(Code::StoreUnavailable, "Redis gave a reply that no script of Tollgate gives")
}

/// A server without memory left.
pub(super) fn full() -> Error {
    crate::meaning::meaning_of("OOM")
}

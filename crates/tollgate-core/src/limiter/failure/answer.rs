//! Whether a store answered a call, whatever the call was.
//!
//! The breaker and the retry must see an outage inside of a batch as they see one of a single call:
//! a store that fails every element of every batch is down.

use crate::error::{Code, Error, Result};
use crate::store::Evidence;

/// What a store answers to one call.
pub(in crate::limiter) trait Answer {
    /// Why the store did not answer, if it did not.
    fn outage(&self) -> Option<&Error>;

    /// Whether it is known that nothing reached the store: trying again cannot charge twice.
    fn is_not_sent(&self) -> bool;

    /// Whether all of it was refused before the store was called: then the store has not answered.
    fn is_refused_here(&self) -> bool;
}

impl<T> Answer for Result<T> {
    fn outage(&self) -> Option<&Error> {
        self.as_ref().err().filter(|error| error.is_outage())
    }

    fn is_not_sent(&self) -> bool {
        self.as_ref().is_err_and(Error::is_not_sent)
    }

    fn is_refused_here(&self) -> bool {
        self.as_ref().is_err_and(|error| {
            let codes = [Code::InvalidRequest, Code::Unsupported, Code::ConfigInvalid];
            error.is_not_sent() && codes.contains(&error.code())
        })
    }
}

/// A batch: no answer if nothing in it was answered and something met an outage. An admission that
/// lost its races was answered. What is repeated is all of it.
impl Answer for Vec<Result<Evidence>> {
    fn outage(&self) -> Option<&Error> {
        let is_lost = |error: &Error| error.code() == Code::ConflictExhausted;
        let is_answered = self.iter().any(|one| one.as_ref().map_or_else(is_lost, |_| true));
        if is_answered { None } else { self.iter().find_map(Answer::outage) }
    }

    fn is_not_sent(&self) -> bool {
        self.iter().all(Answer::is_not_sent)
    }

    fn is_refused_here(&self) -> bool {
        !self.is_empty() && self.iter().all(Answer::is_refused_here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_repeated_only_if_nothing_of_it_may_be_spent() {
        let not_sent = || Err(Error::new(Code::StoreUnavailable, "away").not_sent());
        let spent = || Err(Error::new(Code::QueueFull, "may be spent"));
        let lost = || Err(Error::new(Code::Timeout, "silent"));
        let outage =
            |batch: Vec<Result<Evidence>>| batch.outage().is_some().then(|| batch.is_not_sent());
        assert_eq!(outage(vec![not_sent(), not_sent()]), Some(true));
        assert_eq!(outage(vec![spent(), not_sent()]), Some(false));
        assert_eq!(outage(vec![not_sent(), lost()]), Some(false));
        assert_eq!(outage(vec![spent()]), None);
    }
}

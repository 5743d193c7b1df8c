//! Whether a store answered a call, whatever the call was.
//!
//! The breaker and the retry must see an outage inside of a batch as they see one of a single call:
//! a store that fails every element of every batch is down.

use crate::error::{Code, Error, Result};
use crate::store::Evidence;

/// A store that did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::limiter) enum Outage {
    /// It is known that nothing reached it: trying again cannot charge twice.
    NotSent,
    /// It may have been reached.
    Unknown,
}

/// What a store answers to one call.
pub(in crate::limiter) trait Answer {
    /// Whether that is no answer.
    fn outage(&self) -> Option<Outage>;

    /// Why there was none, somewhere in it.
    fn outage_error(&self) -> Option<&Error>;

    /// Whether all of it was refused before the store was called: then the store has not answered.
    fn is_refused_here(&self) -> bool;
}

impl<T> Answer for Result<T> {
    fn outage(&self) -> Option<Outage> {
        self.as_ref().err().and_then(outage_in)
    }

    fn outage_error(&self) -> Option<&Error> {
        self.as_ref().err().filter(|error| error.is_outage())
    }

    fn is_refused_here(&self) -> bool {
        self.as_ref().is_err_and(|error| {
            let codes = [Code::InvalidRequest, Code::Unsupported, Code::ConfigInvalid];
            error.is_not_sent() && codes.contains(&error.code())
        })
    }
}

/// A batch: no answer if nothing in it was answered and something met an outage. Who lost against
/// others was answered.
impl Answer for Vec<Result<Evidence>> {
    fn outage(&self) -> Option<Outage> {
        let is_lost = |error: &Error| error.code() == Code::ConflictExhausted;
        if self.iter().any(|one| one.as_ref().map_or_else(is_lost, |_| true)) {
            return None;
        }
        self.iter().find_map(Answer::outage)?;
        // What is repeated is all of it.
        let is_not_sent = |one: &Result<Evidence>| one.as_ref().is_err_and(Error::is_not_sent);
        Some(if self.iter().all(is_not_sent) { Outage::NotSent } else { Outage::Unknown })
    }

    fn outage_error(&self) -> Option<&Error> {
        self.iter().find_map(Answer::outage_error)
    }

    fn is_refused_here(&self) -> bool {
        !self.is_empty() && self.iter().all(Answer::is_refused_here)
    }
}

fn outage_in(error: &Error) -> Option<Outage> {
    error.is_outage().then(|| if error.is_not_sent() { Outage::NotSent } else { Outage::Unknown })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_repeated_only_if_nothing_of_it_may_be_spent() {
        let not_sent = || Err(Error::new(Code::StoreUnavailable, "away").not_sent());
        let spent = || Err(Error::new(Code::QueueFull, "may be spent"));
        let lost = || Err(Error::new(Code::Timeout, "silent"));
        let outage = |batch: Vec<Result<Evidence>>| batch.outage();
        assert_eq!(outage(vec![not_sent(), not_sent()]), Some(Outage::NotSent));
        assert_eq!(outage(vec![spent(), not_sent()]), Some(Outage::Unknown));
        assert_eq!(outage(vec![not_sent(), lost()]), Some(Outage::Unknown));
        assert_eq!(outage(vec![spent()]), None);
    }
}

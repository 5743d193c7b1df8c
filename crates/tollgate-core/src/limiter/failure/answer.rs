//! What the answer of a call shows about the store, whatever the call was.
//!
//! The breaker and the retry must see an outage inside of a batch as they see one of a single call:
//! a server that fails every element of every batch is down.

use super::breakers::Sign;
use crate::error::{Code, Error, Result};
use crate::store::Evidence;

/// What a store answers to one call.
pub(in crate::limiter) trait Answer {
    /// Why the store did not answer, if it did not.
    fn outage(&self) -> Option<&Error>;

    /// Whether it is known that nothing reached the store: trying again cannot charge twice.
    fn is_not_sent(&self) -> bool;
}

impl<T> Answer for Result<T> {
    fn outage(&self) -> Option<&Error> {
        self.as_ref().err().filter(|error| error.is_outage())
    }

    fn is_not_sent(&self) -> bool {
        self.as_ref().is_err_and(Error::is_not_sent)
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
}

/// What one answer shows about the server of its key.
///
/// A call that was refused before the store was called shows nothing, nor does one that waited
/// behind others in this process: they may have been answered before the server became silent. So
/// does a call whose deadline has expired, unless it met an outage.
pub(super) fn sign_of<T>(answer: &Result<T>, is_expired: bool) -> Sign<'_> {
    let error = match answer {
        Ok(_) => return Sign::Answered,
        Err(error) if error.is_outage() => return Sign::Outage(error),
        Err(error) => error,
    };
    let is_refused_here = match error.code() {
        Code::InvalidRequest | Code::Unsupported | Code::ConfigInvalid | Code::QueueFull => true,
        Code::ConflictExhausted => is_expired,
        _ => false,
    };
    if error.is_not_sent() && is_refused_here { Sign::Nothing } else { Sign::Answered }
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

    #[test]
    fn only_an_answer_of_the_server_is_a_sign_of_it() {
        let is_answer = |code, is_expired| {
            let answer: Result<()> = Err(Error::new(code, "nothing was charged").not_sent());
            matches!(sign_of(&answer, is_expired), Sign::Answered)
        };
        assert!(is_answer(Code::ConflictExhausted, false), "the server reported it");
        assert!(!is_answer(Code::ConflictExhausted, true), "it was lost before the silence");
        assert!(!is_answer(Code::QueueFull, false) && !is_answer(Code::QueueFull, true));
        assert!(!is_answer(Code::Unsupported, false));
        assert!(is_answer(Code::StoreFull, false));
        let outage: Result<()> = Err(Error::new(Code::Timeout, "silent"));
        assert!(matches!(sign_of(&outage, true), Sign::Outage(_)));
    }
}

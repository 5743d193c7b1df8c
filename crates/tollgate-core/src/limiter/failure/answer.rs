//! What the answer of a call shows about the store, whatever the call was.
//!
//! The breaker and the retry must see an outage inside of a batch as they see one of a single call:
//! a server that fails every element of every batch is down.

use super::breakers::CallOutcome;
use crate::error::{Code, Error, Result};
use crate::store::Evidence;

/// What a store answers to one call.
pub(in crate::limiter) trait StoreAnswer {
    /// Why the store did not answer, if it did not.
    fn outage(&self) -> Option<&Error>;

    /// Whether it is known that nothing reached the store: trying again cannot charge twice.
    fn is_not_sent(&self) -> bool;
}

impl<T> StoreAnswer for Result<T> {
    fn outage(&self) -> Option<&Error> {
        self.as_ref().err().filter(|error| error.is_outage())
    }

    fn is_not_sent(&self) -> bool {
        self.as_ref().is_err_and(Error::is_not_sent)
    }
}

/// A batch: no answer if nothing in it was answered and something met an outage. An admission that
/// lost its races was answered. What is repeated is all of it.
impl StoreAnswer for Vec<Result<Evidence>> {
    fn outage(&self) -> Option<&Error> {
        let is_lost = |error: &Error| error.code() == Code::ConflictExhausted;
        let is_answered = self.iter().any(|one| one.as_ref().map_or_else(is_lost, |_| true));
        if is_answered { None } else { self.iter().find_map(StoreAnswer::outage) }
    }

    fn is_not_sent(&self) -> bool {
        self.iter().all(StoreAnswer::is_not_sent)
    }
}

/// What one answer shows about the server of its key.
///
/// A call that was refused before the store was called shows nothing, nor does one that waited
/// behind others in this process: they may have been answered before the server became silent. The
/// same is true of a call that this process ended, at its deadline or because it came too late.
pub(super) fn outcome_of<T>(answer: &Result<T>) -> CallOutcome<'_> {
    let error = match answer {
        Ok(_) => return CallOutcome::Answered,
        Err(error) if error.is_refused_here() => return CallOutcome::Nothing,
        Err(error) if error.is_outage() => return CallOutcome::Outage(error),
        Err(error) => error,
    };
    let is_refused_here = error.is_not_sent()
        && matches!(
            error.code(),
            Code::InvalidRequest | Code::Unsupported | Code::ConfigInvalid | Code::QueueFull
        );
    if error.is_made_here() || is_refused_here {
        CallOutcome::Nothing
    } else {
        CallOutcome::Answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{CallContext, CallFacts};

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
        let is_answer = |error| matches!(outcome_of(&Err::<(), _>(error)), CallOutcome::Answered);
        let not_sent = |code| Error::new(code, "nothing was charged").not_sent();
        assert!(is_answer(not_sent(Code::ConflictExhausted)), "the server reported it");
        assert!(!is_answer(not_sent(Code::QueueFull)) && !is_answer(not_sent(Code::Unsupported)));
        assert!(is_answer(not_sent(Code::StoreFull)));
        let outage: Result<()> = Err(Error::new(Code::Timeout, "silent"));
        assert!(matches!(outcome_of(&outage), CallOutcome::Outage(_)));
    }

    #[test]
    fn a_call_that_this_process_ended_is_no_sign() {
        let record: [fn(CallContext<'_>); 2] = [
            |cx| cx.lost_race(),
            |cx| {
                cx.waiting();
                cx.others_served();
            },
        ];
        let refused: Result<()> = Err(Error::new(Code::Timeout, "too slow").refused_here());
        assert!(matches!(outcome_of(&refused), CallOutcome::Nothing));
        for record in record {
            let facts = CallFacts::new();
            record(CallContext::at(0).with_facts(&facts));
            let answer: Result<()> = Err(facts.expired());
            assert!(matches!(outcome_of(&answer), CallOutcome::Nothing), "{answer:?}");
        }
    }
}

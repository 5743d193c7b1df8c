//! What an error of DynamoDB or of Amazon's client means.
//!
//! Only an outage may reach a failure mode that admits. Lost races and throttling are none, because an
//! attacker can cause them; neither is a missing table or right, because then nothing would ever be
//! limited. Messages carry the code of DynamoDB and no details, which may hold keys.

use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::CancellationReason;
use hyper_util::client::legacy::Error as HttpError;
use tollgate_core::{Code, Error};

use crate::item::Item;

/// Why an attempt brought nothing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// These writes found another version, each with the item that it found if the server told.
    Lost(Vec<(usize, Option<Item>)>),
    /// Another transaction had the key at that moment: nothing was written.
    Conflict,
    /// Too much is asked of the table: nothing happened, and it may be asked again.
    Throttled(Error),
    /// It may have happened or not.
    Unknown(Error),
    /// The same, and there is no time for another attempt.
    Late(Error),
    /// The answer is no, and nothing happened.
    Refused(Error),
}

impl Fault {
    /// What a single put failed by.
    pub(crate) fn of_put(error: SdkError<PutItemError>) -> Self {
        match error {
            SdkError::ServiceError(refusal) => match refusal.err() {
                PutItemError::ConditionalCheckFailedException(found) => {
                    Self::Lost(vec![(0, found.item.clone())])
                }
                said => Self::of_answer(said.code(), refusal.raw().status().as_u16()),
            },
            other => Self::of(&other),
        }
    }

    /// What a transaction failed by.
    pub(crate) fn of_transaction(error: &SdkError<TransactWriteItemsError>) -> Self {
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                Self::of_reasons(cancelled.cancellation_reasons())
            }
            _ => Self::of(error),
        }
    }

    /// What anything failed by.
    pub(crate) fn of<E>(error: &SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        match error {
            SdkError::ServiceError(refusal) => {
                Self::of_answer(refusal.err().code(), refusal.raw().status().as_u16())
            }
            SdkError::ConstructionFailure(_) => {
                let message = "the request could not be made from these settings";
                Self::Refused(Error::config("store", message))
            }
            SdkError::ResponseError(_) => {
                Self::Unknown(unavailable("DynamoDB gave an answer that cannot be read"))
            }
            other => of_connection(other),
        }
    }

    /// Part of a batch was not answered for want of capacity.
    pub(crate) fn of_unprocessed() -> Self {
        Self::Throttled(throttling("UnprocessedKeys"))
    }

    /// Others are in the way of something that cannot lose a race.
    pub(crate) fn contended() -> Error {
        Error::new(Code::ConflictExhausted, "others keep the table busy; nothing was charged")
    }

    /// A cancelled transaction wrote nothing, for one reason per write.
    fn of_reasons(reasons: &[CancellationReason]) -> Self {
        let with = |code: &str| reasons.iter().any(|reason| reason.code() == Some(code));
        if with("ConditionalCheckFailed") {
            let lost = reasons.iter().enumerate();
            let lost = lost.filter(|(_, reason)| reason.code() == Some("ConditionalCheckFailed"));
            return Self::Lost(lost.map(|(at, reason)| (at, reason.item.clone())).collect());
        }
        let throttled = ["ThrottlingError", "ProvisionedThroughputExceeded"];
        if let Some(code) = throttled.into_iter().find(|code| with(code)) {
            return Self::Throttled(throttling(code));
        }
        let refusals = ["ValidationError", "ItemCollectionSizeLimitExceeded"];
        match refusals.into_iter().find(|code| with(code)) {
            Some(code) => Self::Refused(set_up_otherwise(code)),
            None => Self::Conflict,
        }
    }

    /// What DynamoDB says by a code and a status.
    fn of_answer(code: Option<&str>, status: u16) -> Self {
        let code = code.unwrap_or("no code");
        match code {
            "TransactionConflictException" | "ReplicatedWriteConflictException" => Self::Conflict,
            "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "ThrottlingException"
            | "Throttling"
            | "TransactionInProgressException" => Self::Throttled(throttling(code)),
            "ResourceNotFoundException" => Self::Refused(Error::config(
                "table",
                "does not exist in this region and account; `tollgate migrate` makes it",
            )),
            // A write behind such an answer may have been applied.
            _ if status >= 500 => Self::Unknown(unavailable(&format!("DynamoDB reported {code}"))),
            // Rights, credentials, the shape of the table: whatever was set up otherwise.
            _ => Self::Refused(set_up_otherwise(code)),
        }
    }
}

/// No answer came: the request was lost on its way, or never left.
fn of_connection(error: &(dyn StdError + 'static)) -> Fault {
    let chain = || core::iter::successors(Some(error), |cause| (*cause).source());
    let http = chain().find_map(|cause| cause.downcast_ref::<HttpError>());
    match http {
        Some(http) if http.is_connect() => {
            Fault::Refused(unavailable("cannot connect to DynamoDB").not_sent())
        }
        Some(_) => Fault::Unknown(unavailable("the connection to DynamoDB broke")),
        // Credentials are looked for before anything is sent.
        None => match chain().find_map(|cause| cause.downcast_ref::<CredentialsError>()) {
            Some(error) => Fault::Refused(without_credentials(error).not_sent()),
            None => Fault::Unknown(unavailable("DynamoDB could not be asked")),
        },
    }
}

/// Nobody has any, or whoever hands them out cannot answer.
pub(crate) fn without_credentials(error: &CredentialsError) -> Error {
    match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            let accepted = "cannot be found; accepted: the environment, a profile, the role of the \
                            machine, container or web identity";
            Error::config("credentials", accepted)
        }
        _ => unavailable("whoever hands out credentials does not answer"),
    }
}

fn unavailable(message: &str) -> Error {
    Error::new(Code::StoreUnavailable, message)
}

/// Not an outage: whoever sends enough requests can cause it.
fn throttling(code: &str) -> Error {
    let message = format!("DynamoDB throttles this table ({code}); nothing was charged");
    Error::new(Code::QueueFull, message)
}

fn set_up_otherwise(code: &str) -> Error {
    Error::config("store", format!("is refused by DynamoDB: {code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).build()
    }

    #[test]
    fn only_what_dynamodb_cannot_answer_is_an_outage() {
        for (code, status) in [("InternalServerError", 500), ("ServiceUnavailable", 503)] {
            let Fault::Unknown(error) = Fault::of_answer(Some(code), status) else {
                panic!("{code}");
            };
            assert!(error.is_outage() && !error.is_not_sent(), "{error}");
        }
        for code in ["ThrottlingException", "ProvisionedThroughputExceededException"] {
            let Fault::Throttled(error) = Fault::of_answer(Some(code), 400) else {
                panic!("{code}");
            };
            assert_eq!(error.code(), Code::QueueFull);
        }
        for code in ["ResourceNotFoundException", "AccessDeniedException", "ValidationException"] {
            let Fault::Refused(error) = Fault::of_answer(Some(code), 400) else {
                panic!("{code}");
            };
            assert_eq!(error.code(), Code::ConfigInvalid, "{code}");
        }
        let conflict = Fault::of_answer(Some("TransactionConflictException"), 400);
        assert!(matches!(conflict, Fault::Conflict));
    }

    #[test]
    fn missing_credentials_are_a_mistake_and_a_silent_source_of_them_is_an_outage() {
        let missing = CredentialsError::not_loaded("nothing anywhere");
        assert_eq!(without_credentials(&missing).code(), Code::ConfigInvalid);
        let silent = CredentialsError::provider_timed_out(core::time::Duration::from_secs(1));
        assert!(without_credentials(&silent).is_outage());
        assert!(without_credentials(&CredentialsError::provider_error("down")).is_outage());
    }

    #[test]
    fn the_reasons_of_a_cancelled_transaction_are_told_apart() {
        let of = |codes: &[&str]| {
            let reasons: Vec<CancellationReason> = codes.iter().map(|code| reason(code)).collect();
            Fault::of_reasons(&reasons)
        };
        let lost = of(&["None", "ConditionalCheckFailed", "TransactionConflict"]);
        assert!(matches!(&lost, Fault::Lost(lost) if lost.len() == 1 && lost[0].0 == 1));
        assert!(matches!(of(&["None", "ThrottlingError"]), Fault::Throttled(_)));
        assert!(matches!(of(&["TransactionConflict", "None"]), Fault::Conflict));
        assert!(matches!(of(&["ValidationError", "None"]), Fault::Refused(_)));
        assert!(matches!(of(&[]), Fault::Conflict));
    }
}

//! Classifies errors of DynamoDB and of the AWS SDK.
//!
//! Only an outage may reach an outage mode that admits. Lost races and throttling are not outages,
//! because an attacker can cause them. A missing table or permission is not an outage either: every
//! request would then be admitted. Messages carry the error code and no details, which may contain
//! keys.

use std::error::Error as StdError;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::CancellationReason;
use hyper_util::client::legacy::Error as HttpError;
use tollgate_core::{Code, Error};

use crate::item::Item;

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The conditions of these writes failed. Each comes with the stored item, if the server
    /// returned it.
    ConditionFailed(Vec<(usize, Option<Item>)>),
    /// Another transaction was writing the key. Nothing was written.
    Conflict,
    /// The table is throttled. Nothing was done, and the request may be repeated.
    Throttled(Error),
    /// The outcome is unknown.
    OutcomeUnknown(Error),
    /// The outcome is unknown, and there is no time for another attempt.
    TimedOut(Error),
    /// The request was rejected, and nothing was done.
    Rejected(Error),
}

impl RequestError {
    /// The error of a conditional put.
    pub(crate) fn of_put(error: SdkError<PutItemError>) -> Self {
        match error {
            SdkError::ServiceError(refusal) => match refusal.err() {
                PutItemError::ConditionalCheckFailedException(found) => {
                    Self::ConditionFailed(vec![(0, found.item.clone())])
                }
                other => Self::of_code(other.code(), refusal.raw().status().as_u16()),
            },
            other => Self::of(&other),
        }
    }

    /// The error of a transaction.
    pub(crate) fn of_transaction(error: &SdkError<TransactWriteItemsError>) -> Self {
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                Self::of_reasons(cancelled.cancellation_reasons())
            }
            _ => Self::of(error),
        }
    }

    /// The error of any other request.
    pub(crate) fn of<E>(error: &SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        match error {
            SdkError::ServiceError(refusal) => {
                Self::of_code(refusal.err().code(), refusal.raw().status().as_u16())
            }
            SdkError::ConstructionFailure(_) => Self::Rejected(invalid_request()),
            SdkError::ResponseError(_) => {
                Self::OutcomeUnknown(unavailable("unexpected response of DynamoDB"))
            }
            other => not_answered(other),
        }
    }

    /// DynamoDB returned a part of the keys of a batch as unprocessed.
    pub(crate) fn of_unprocessed() -> Self {
        Self::Throttled(throttled("UnprocessedKeys"))
    }

    /// The error for callers, when nothing is retried.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Throttled(error)
            | Self::OutcomeUnknown(error)
            | Self::TimedOut(error)
            | Self::Rejected(error) => error,
            Self::ConditionFailed(_) | Self::Conflict => {
                let message = "other transactions use the table; nothing was charged";
                Error::new(Code::ConflictExhausted, message)
            }
        }
    }

    /// A cancelled transaction has one reason per write, and wrote nothing.
    fn of_reasons(reasons: &[CancellationReason]) -> Self {
        let with = |code: &str| reasons.iter().any(|reason| reason.code() == Some(code));
        if with("ConditionalCheckFailed") {
            let failed = reasons.iter().enumerate();
            let failed =
                failed.filter(|(_, reason)| reason.code() == Some("ConditionalCheckFailed"));
            let failed = failed.map(|(index, reason)| (index, reason.item.clone()));
            return Self::ConditionFailed(failed.collect());
        }
        let throttling = ["ThrottlingError", "ProvisionedThroughputExceeded"];
        if let Some(code) = throttling.into_iter().find(|code| with(code)) {
            return Self::Throttled(throttled(code));
        }
        if with("ItemCollectionSizeLimitExceeded") {
            return Self::Rejected(full());
        }
        if with("ValidationError") {
            return Self::Rejected(rejected("ValidationError"));
        }
        Self::Conflict
    }

    /// The error of a code and an HTTP status.
    fn of_code(code: Option<&str>, status: u16) -> Self {
        let code = code.unwrap_or("no code");
        match code {
            "TransactionConflictException" | "ReplicatedWriteConflictException" => Self::Conflict,
            "ProvisionedThroughputExceededException"
            | "RequestLimitExceeded"
            | "ThrottlingException"
            | "Throttling"
            | "TransactionInProgressException" => Self::Throttled(throttled(code)),
            "ItemCollectionSizeLimitExceededException" => Self::Rejected(full()),
            "ResourceNotFoundException" => Self::Rejected(Error::config(
                "table",
                "does not exist in this region and account; `tollgate migrate` creates it",
            )),
            // The write may have been applied.
            _ if status >= 500 => {
                Self::OutcomeUnknown(unavailable(&format!("DynamoDB reported {code}")))
            }
            // Permissions, credentials, the key schema of the table: a mistake of the
            // configuration.
            _ => Self::Rejected(rejected(code)),
        }
    }
}

/// There was no response: the connection was lost, or nothing was sent.
fn not_answered(error: &(dyn StdError + 'static)) -> RequestError {
    let chain = || core::iter::successors(Some(error), |cause| (*cause).source());
    let http = chain().find_map(|cause| cause.downcast_ref::<HttpError>());
    match http {
        Some(http) if http.is_connect() => {
            RequestError::Rejected(unavailable("cannot connect to DynamoDB").not_sent())
        }
        Some(_) => RequestError::OutcomeUnknown(unavailable("the connection to DynamoDB was lost")),
        // Credentials are needed before anything is sent.
        None => match chain().find_map(|cause| cause.downcast_ref::<CredentialsError>()) {
            Some(error) => RequestError::Rejected(without_credentials(error).not_sent()),
            None => RequestError::OutcomeUnknown(unavailable("the request to DynamoDB failed")),
        },
    }
}

/// There are no credentials, or their source does not answer.
pub(crate) fn without_credentials(error: &CredentialsError) -> Error {
    match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            let accepted = "were not found; accepted: the environment, a profile, the role of the \
                            machine, container or web identity";
            Error::config("credentials", accepted)
        }
        _ => unavailable("the source of the credentials does not answer"),
    }
}

/// The AWS SDK cannot build a request of these settings.
pub(crate) fn invalid_request() -> Error {
    Error::config("store", "cannot be used for a request")
}

fn unavailable(message: &str) -> Error {
    Error::new(Code::StoreUnavailable, message)
}

/// Not an outage: an attacker can cause it by sending many requests.
fn throttled(code: &str) -> Error {
    let message = format!("DynamoDB throttles this table ({code}); nothing was charged");
    Error::new(Code::QueueFull, message)
}

/// Not an outage: failing open would admit every caller as long as it lasts.
fn full() -> Error {
    let message = "a partition of the table is full (ItemCollectionSizeLimitExceeded)";
    Error::new(Code::StoreFull, message)
}

fn rejected(code: &str) -> Error {
    Error::config("store", format!("is rejected by DynamoDB: {code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: &str) -> CancellationReason {
        CancellationReason::builder().code(code).build()
    }

    #[test]
    fn only_a_failure_of_dynamodb_is_an_outage() {
        for (code, status) in [("InternalServerError", 500), ("ServiceUnavailable", 503)] {
            let RequestError::OutcomeUnknown(error) = RequestError::of_code(Some(code), status)
            else {
                panic!("{code}");
            };
            assert!(error.is_outage() && !error.is_not_sent(), "{error}");
        }
        for code in ["ThrottlingException", "ProvisionedThroughputExceededException"] {
            let RequestError::Throttled(error) = RequestError::of_code(Some(code), 400) else {
                panic!("{code}");
            };
            assert_eq!(error.code(), Code::QueueFull);
        }
        for code in ["ResourceNotFoundException", "AccessDeniedException", "ValidationException"] {
            let RequestError::Rejected(error) = RequestError::of_code(Some(code), 400) else {
                panic!("{code}");
            };
            assert_eq!(error.code(), Code::ConfigInvalid, "{code}");
        }
        let conflict = RequestError::of_code(Some("TransactionConflictException"), 400);
        assert!(matches!(conflict, RequestError::Conflict));
    }

    #[test]
    fn missing_credentials_are_a_mistake_and_an_unreachable_source_is_an_outage() {
        let missing = CredentialsError::not_loaded("nothing anywhere");
        assert_eq!(without_credentials(&missing).code(), Code::ConfigInvalid);
        let silent = CredentialsError::provider_timed_out(core::time::Duration::from_secs(1));
        assert!(without_credentials(&silent).is_outage());
        assert!(without_credentials(&CredentialsError::provider_error("down")).is_outage());
    }

    #[test]
    fn the_reasons_of_a_cancelled_transaction_are_classified() {
        let of = |codes: &[&str]| {
            let reasons: Vec<CancellationReason> = codes.iter().map(|code| reason(code)).collect();
            RequestError::of_reasons(&reasons)
        };
        let failed = of(&["None", "ConditionalCheckFailed", "TransactionConflict"]);
        assert!(matches!(
            &failed,
            RequestError::ConditionFailed(failed) if failed.len() == 1 && failed[0].0 == 1
        ));
        assert!(matches!(of(&["None", "ThrottlingError"]), RequestError::Throttled(_)));
        assert!(matches!(of(&["TransactionConflict", "None"]), RequestError::Conflict));
        assert!(matches!(of(&["ValidationError", "None"]), RequestError::Rejected(_)));
        assert!(matches!(of(&[]), RequestError::Conflict));
        assert!(matches!(
            of(&["None", "ItemCollectionSizeLimitExceeded"]),
            RequestError::Rejected(error) if error.code() == Code::StoreFull
        ));
    }
}

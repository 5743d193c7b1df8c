//! The one table from codes to gRPC statuses.

use std::time::Duration;

use tollgate::Code;
use tonic::{Code as Grpc, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::engine::Failure;

pub(super) fn of(failure: &Failure) -> Status {
    let error = &failure.error;
    let mut details = ErrorDetails::new();
    if let Some(wait) = failure.retry_after_ms {
        details.set_retry_info(Some(Duration::from_millis(wait)));
    }
    if let Some(field) = error.field() {
        details.add_bad_request_violation(field, error.message());
    }
    Status::with_error_details(code_of(error.code()), error.to_string(), details)
}

const fn code_of(code: Code) -> Grpc {
    match code {
        Code::StoreUnavailable | Code::Timeout => Grpc::Unavailable,
        Code::ConflictExhausted | Code::QueueFull => Grpc::ResourceExhausted,
        Code::CorruptState => Grpc::DataLoss,
        Code::InvalidRequest => Grpc::InvalidArgument,
        Code::UnknownPolicy => Grpc::NotFound,
        Code::IdempotencyConflict => Grpc::AlreadyExists,
        Code::Unauthorized => Grpc::Unauthenticated,
        Code::ConfigInvalid | Code::Unsupported => Grpc::Unimplemented,
        // Codes that are not known yet.
        _ => Grpc::Internal,
    }
}

//! Failures as gRPC statuses.

use tollgate_http::{Problem, Status as Statuses};
use tollgate_service::engine::Failure;
use tonic::{Code, Status};

/// The status of a failure, with its wait and its field as details.
pub(super) fn of(Failure { error, retry_after_ms, .. }: &Failure) -> Status {
    let code = Code::from_i32(Statuses::of(error.code()).grpc.number().into());
    let message = error.to_string();
    let problem = Problem::from(error).retry_after_ms(*retry_after_ms);
    let details = problem.grpc_status(&message);
    Status::with_details(code, message, details.into())
}

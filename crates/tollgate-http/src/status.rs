//! Error codes as HTTP statuses, gRPC codes and RESP prefixes.

use http::StatusCode;
use tollgate_core::Code;

/// The wait that a client is asked for when no better one is known. A header cannot state less than
/// a second, and contention rarely lasts as long.
const RETRY_MS: u64 = 1_000;

/// The gRPC codes of errors and denials, by their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the gRPC specification documents its codes")]
pub enum GrpcCode {
    InvalidArgument = 3,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl GrpcCode {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// How each protocol reports an error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The status of an HTTP response.
    pub http: StatusCode,
    /// The status of a gRPC call.
    pub grpc: GrpcCode,
    /// The first word of a RESP error.
    pub resp: &'static str,
    /// Milliseconds to wait before another attempt; absent when another attempt cannot help.
    pub retry_after_ms: Option<u64>,
}

impl Status {
    /// The statuses of an error code.
    #[must_use]
    pub const fn of(code: Code) -> Self {
        let (http, grpc, resp) = match code {
            Code::StoreUnavailable | Code::Timeout => {
                (StatusCode::SERVICE_UNAVAILABLE, GrpcCode::Unavailable, "UNAVAILABLE")
            }
            Code::ConflictExhausted | Code::QueueFull => {
                (StatusCode::SERVICE_UNAVAILABLE, GrpcCode::ResourceExhausted, "BUSY")
            }
            Code::StoreFull => {
                (StatusCode::INSUFFICIENT_STORAGE, GrpcCode::ResourceExhausted, "FULL")
            }
            Code::CorruptState => (StatusCode::INTERNAL_SERVER_ERROR, GrpcCode::DataLoss, "ERR"),
            Code::InvalidRequest => (StatusCode::BAD_REQUEST, GrpcCode::InvalidArgument, "ERR"),
            Code::UnknownPolicy => (StatusCode::NOT_FOUND, GrpcCode::NotFound, "ERR"),
            Code::IdempotencyConflict => {
                (StatusCode::CONFLICT, GrpcCode::AlreadyExists, "CONFLICT")
            }
            Code::Unauthorized => (StatusCode::UNAUTHORIZED, GrpcCode::Unauthenticated, "NOAUTH"),
            Code::Forbidden => (StatusCode::FORBIDDEN, GrpcCode::PermissionDenied, "NOPERM"),
            Code::ConfigInvalid | Code::Unsupported => {
                (StatusCode::NOT_IMPLEMENTED, GrpcCode::Unimplemented, "ERR")
            }
            // `Code` grows: a code that this version does not list is an internal error.
            _ => (StatusCode::INTERNAL_SERVER_ERROR, GrpcCode::Internal, "ERR"),
        };
        let passes = http.as_u16() == StatusCode::SERVICE_UNAVAILABLE.as_u16();
        let retry_after_ms = if passes { Some(RETRY_MS) } else { None };
        Self { http, grpc, resp, retry_after_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the contract, row by row.
    #[test]
    fn every_code_has_its_row() {
        let rows = [
            (Code::StoreUnavailable, 503, 14, "UNAVAILABLE"),
            (Code::Timeout, 503, 14, "UNAVAILABLE"),
            (Code::ConflictExhausted, 503, 8, "BUSY"),
            (Code::QueueFull, 503, 8, "BUSY"),
            (Code::StoreFull, 507, 8, "FULL"),
            (Code::CorruptState, 500, 15, "ERR"),
            (Code::InvalidRequest, 400, 3, "ERR"),
            (Code::UnknownPolicy, 404, 5, "ERR"),
            (Code::IdempotencyConflict, 409, 6, "CONFLICT"),
            (Code::Unauthorized, 401, 16, "NOAUTH"),
            (Code::Forbidden, 403, 7, "NOPERM"),
            (Code::ConfigInvalid, 501, 12, "ERR"),
            (Code::Unsupported, 501, 12, "ERR"),
        ];
        for (code, http, grpc, resp) in rows {
            let status = Status::of(code);
            assert_eq!(
                (status.http.as_u16(), status.grpc.number(), status.resp),
                (http, grpc, resp),
                "{code}"
            );
            assert_eq!(status.retry_after_ms.is_some(), http == 503, "{code}");
        }
    }
}

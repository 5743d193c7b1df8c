//! Subjects that do not depend on the client: the path, or all requests.

use super::{Extract, ExtractError, ExtractResult, TEXT_MAX_BYTES};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

/// The path of the request; for gRPC that is the service and its method.
///
/// Clients can invent paths, and each path is a budget: behind a router, limit by the matched route
/// instead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path;

impl Extract for Path {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let path = request.uri.path();
        if path.len() > TEXT_MAX_BYTES {
            return Err(ExtractError::malformed("path", "at most 512 bytes"));
        }
        subject.push("path=");
        subject.push(path);
        Ok(())
    }
}

/// One subject for all requests, for a limit of the whole service.
#[derive(Clone, Copy, Debug, Default)]
pub struct Global;

impl Extract for Global {
    fn extract(&self, _request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        subject.push("all");
        Ok(())
    }
}

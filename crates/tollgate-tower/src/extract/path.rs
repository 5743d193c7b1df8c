//! What is asked for, instead of who asks.

use super::{Extract, TEXT_MAX_BYTES, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

/// The path of the request; for gRPC that is the service and its method.
///
/// Any client can make up paths, and so budgets: behind a router that knows its routes, limit by
/// the matched route instead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path;

impl Extract for Path {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let path = head.uri.path();
        if path.len() > TEXT_MAX_BYTES {
            return Err(Unkeyed::malformed("path", "at most 512 bytes"));
        }
        subject.push("path=");
        subject.push(path);
        Ok(())
    }
}

/// One subject for all requests: a limit for the service as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everybody;

impl Extract for Everybody {
    fn extract(&self, _head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        subject.push("all");
        Ok(())
    }
}

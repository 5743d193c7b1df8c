//! The peer address, the matched route and the body type of axum.

use core::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, MatchedPath};
use bytes::Bytes;

use crate::extract::client_ip::Peer;
use crate::extract::{Extract, ExtractError, ExtractResult};
use crate::refusal::{BodyGuard, Guarded, ResponseBody};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

/// For servers made by `into_make_service_with_connect_info::<SocketAddr>()`.
impl Peer for ConnectInfo<SocketAddr> {
    fn address(&self) -> Option<SocketAddr> {
        Some(self.0)
    }
}

impl ResponseBody for Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::from(bytes)
    }

    fn guarded(self, guard: BodyGuard) -> Self {
        Self::new(Guarded::new(self, guard))
    }
}

/// The route that matched, as it was declared: `/users/{id}`. Missing when no route matched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Route;

impl Extract for Route {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let missing = || ExtractError::missing("route", "a path that a route matches");
        let route = request.extensions.get::<MatchedPath>().ok_or_else(missing)?;
        subject.push("route=");
        subject.push(route.as_str());
        Ok(())
    }
}

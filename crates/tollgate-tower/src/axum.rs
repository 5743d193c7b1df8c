//! What axum knows about a request, and its body.

use core::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, MatchedPath};
use bytes::Bytes;

use crate::extract::client_ip::Peer;
use crate::extract::{Extract, Unkeyed};
use crate::head::Head;
use crate::reply::ReplyBody;
use crate::subject::Subject;

/// For servers made by `into_make_service_with_connect_info::<SocketAddr>()`.
impl Peer for ConnectInfo<SocketAddr> {
    fn address(&self) -> Option<SocketAddr> {
        Some(self.0)
    }
}

impl ReplyBody for Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::from(bytes)
    }
}

/// The route that matched, as it was declared: `/users/{id}`. Missing where none did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Route;

impl Extract for Route {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let route = head.extensions.get::<MatchedPath>();
        let route =
            route.ok_or_else(|| Unkeyed::missing("route", "a path that a route matches"))?;
        subject.push("route=");
        subject.push(route.as_str());
        Ok(())
    }
}

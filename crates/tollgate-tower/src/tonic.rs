//! What tonic knows about a call, and its body.

use core::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use tonic::body::Body;
use tonic::transport::server::TcpConnectInfo;

use crate::extract::client_ip::Peer;
use crate::reply::ReplyBody;

/// For tonic's own server without TLS.
impl Peer for TcpConnectInfo {
    fn address(&self) -> Option<SocketAddr> {
        self.remote_addr()
    }
}

impl ReplyBody for Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }
}

//! The peer address and the body type of tonic.

use core::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use tonic::body::Body;
use tonic::transport::server::TcpConnectInfo;

use crate::extract::client_ip::Peer;
use crate::refusal::{BodyGuard, Guarded, ResponseBody};

/// For the server of tonic without TLS.
impl Peer for TcpConnectInfo {
    fn address(&self) -> Option<SocketAddr> {
        self.remote_addr()
    }
}

impl ResponseBody for Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }

    fn guarded(self, guard: BodyGuard) -> Self {
        Self::new(Guarded::new(self, guard))
    }
}

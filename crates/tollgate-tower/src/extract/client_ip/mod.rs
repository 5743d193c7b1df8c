//! The address of the client: that of the peer, unless the peer is a trusted proxy.
//!
//! Proxies append the address of their own peer to a header, so the rightmost elements of this
//! chain come from trusted proxies. The chain is read from the right up to the first address that
//! is not trusted: the client. Elements further left were written by the client and are never read.
//! A peer that is not trusted is the client, and its headers are not read at all. A chain that is
//! missing, too short or malformed is an error: with the address of the proxy as the subject, all
//! of its clients would share one budget.

mod chain;
mod network;

use core::fmt::{self, Write};
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU8;
use core::str::FromStr;

use http::Extensions;
use tollgate::{Error, Result};

use super::{Extract, ExtractError, ExtractResult};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

use network::{masked, unmapped};

pub use chain::Chain;
pub use network::Network;

/// A request extension that holds the address of the peer.
pub trait Peer: Send + Sync + 'static {
    /// The address of the peer; a Unix socket has none.
    fn address(&self) -> Option<SocketAddr>;
}

/// For servers that insert the plain address.
impl Peer for SocketAddr {
    fn address(&self) -> Option<SocketAddr> {
        Some(*self)
    }
}

/// Access providers assign at least a /64 to one customer.
const V6_PREFIX: u8 = 64;
const READABLE: &str = "addresses that trusted proxies appended";

/// The address of the client; an IPv6 address counts by its /64 network.
///
/// ```
/// use std::net::SocketAddr;
///
/// use tollgate_tower::extract::ClientIp;
///
/// // The peer itself; with axum, the extension is `ConnectInfo<SocketAddr>`.
/// let direct = ClientIp::peer::<SocketAddr>();
/// // The client behind proxies of a private network, from `X-Forwarded-For`.
/// let proxied = ClientIp::peer::<SocketAddr>().behind(["10.0.0.0/8"])?;
/// # Ok::<(), tollgate::Error>(())
/// ```
#[derive(Clone)]
pub struct ClientIp {
    peer: fn(&Extensions) -> Option<SocketAddr>,
    trust: TrustedProxies,
    chain: Chain,
    v6_prefix: u8,
    v6_overrides: Vec<(Network, u8)>,
}

#[derive(Clone, Debug)]
enum TrustedProxies {
    None,
    Networks(Vec<Network>),
    Hops(NonZeroU8),
}

impl ClientIp {
    /// The address of the peer, from the extension `P` that the server adds to its requests.
    #[must_use]
    pub fn peer<P: Peer>() -> Self {
        Self {
            peer: |extensions| extensions.get::<P>().and_then(P::address),
            trust: TrustedProxies::None,
            chain: Chain::default(),
            v6_prefix: V6_PREFIX,
            v6_overrides: Vec::new(),
        }
    }

    /// Trusts proxies in these networks to append the address of their peer. A request from any
    /// other peer is charged to that peer.
    ///
    /// # Errors
    /// `config_invalid` naming the field `network` when a text is no network.
    pub fn behind<'a>(mut self, proxies: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        self.trust = TrustedProxies::Networks(parsed(proxies)?);
        Ok(self)
    }

    /// Trusts the last `hops` proxies, independent of their addresses: for servers that can only be
    /// reached through all of them.
    ///
    /// # Errors
    /// `config_invalid` naming the field `hops` when it is 0.
    pub fn behind_hops(mut self, hops: u8) -> Result<Self> {
        let zero = || Error::config("hops", "0 is out of range; accepted: 1 to 255");
        self.trust = TrustedProxies::Hops(NonZeroU8::new(hops).ok_or_else(zero)?);
        Ok(self)
    }

    /// The header that the trusted proxies append to; the other one is never read.
    #[must_use]
    pub fn chain(mut self, chain: Chain) -> Self {
        self.chain = chain;
        self
    }

    /// The number of leading bits of an IPv6 address that count, 64 by default.
    ///
    /// # Errors
    /// `config_invalid` naming the field `ipv6_prefix` when it is not from 16 to 128.
    pub fn ipv6_prefix(mut self, bits: u8) -> Result<Self> {
        self.v6_prefix = accepted_prefix(bits)?;
        Ok(self)
    }

    /// Another number of bits inside one network; the first network that contains the address
    /// applies.
    ///
    /// # Errors
    /// `config_invalid` when the text is no network, or as [`ClientIp::ipv6_prefix`].
    pub fn ipv6_prefix_in(mut self, network: &str, bits: u8) -> Result<Self> {
        self.v6_overrides.push((network.parse()?, accepted_prefix(bits)?));
        Ok(self)
    }

    /// A rule that is true for clients in these networks: an allow list for
    /// [`skip`](crate::RateLimitBuilder::skip). It is false for a client whose address is unknown.
    ///
    /// # Errors
    /// `config_invalid` naming the field `network` when a text is no network.
    pub fn within<'a>(
        self,
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<impl Fn(&RequestParts<'_>) -> bool + Send + Sync + 'static> {
        let networks: Vec<Network> = parsed(networks)?;
        Ok(move |request: &RequestParts<'_>| {
            let client = self.address(request);
            client.is_ok_and(|client| networks.iter().any(|network| network.contains(client)))
        })
    }

    /// The whole address of the client.
    ///
    /// # Errors
    /// When the server does not provide the address of the peer, or the chain of a trusted proxy is
    /// missing or cannot be read.
    pub fn address(&self, request: &RequestParts<'_>) -> ExtractResult<IpAddr> {
        self.client((self.peer)(request.extensions), request)
    }

    /// The same for a given peer.
    fn client(
        &self,
        peer: Option<SocketAddr>,
        request: &RequestParts<'_>,
    ) -> ExtractResult<IpAddr> {
        let no_peer = || {
            let accepted = "a server that adds the address of its peer to the extensions";
            ExtractError::not_provided("peer address", accepted)
        };
        let peer = unmapped(peer.ok_or_else(no_peer)?.ip());
        match &self.trust {
            TrustedProxies::None => Ok(peer),
            TrustedProxies::Networks(networks) => {
                let is_trusted = |address| networks.iter().any(|one| one.contains(address));
                if !is_trusted(peer) {
                    return Ok(peer);
                }
                let mut chain = self.chain.from_the_right(request.headers);
                let mut client = chain.next().ok_or_else(|| self.missing())?;
                loop {
                    let known = client.ok_or_else(|| self.malformed())?;
                    if !is_trusted(known) {
                        return Ok(known);
                    }
                    match chain.next() {
                        Some(further) => client = further,
                        // All are trusted: the client is a machine of a trusted network.
                        None => return Ok(known),
                    }
                }
            }
            TrustedProxies::Hops(hops) => {
                let mut chain = self.chain.from_the_right(request.headers);
                let client = chain.nth(usize::from(hops.get() - 1));
                client.ok_or_else(|| self.missing())?.ok_or_else(|| self.malformed())
            }
        }
    }

    /// Writes the address of any peer and chain.
    #[inline(never)]
    fn push_client(
        &self,
        peer: Option<SocketAddr>,
        request: &RequestParts<'_>,
        subject: &mut Subject,
    ) -> ExtractResult {
        match self.counted(self.client(peer, request)?) {
            (IpAddr::V4(address), _) => push_v4(address.octets(), subject),
            (address, None | Some(128)) => {
                let _ = write!(subject, "{address}");
            }
            (address, Some(bits)) => {
                let _ = write!(subject, "{address}/{bits}");
            }
        }
        Ok(())
    }

    /// The part of an address that counts.
    fn counted(&self, address: IpAddr) -> (IpAddr, Option<u8>) {
        if address.is_ipv4() {
            return (address, None);
        }
        let special = self.v6_overrides.iter().find(|(network, _)| network.contains(address));
        let bits = special.map_or(self.v6_prefix, |(_, bits)| *bits);
        (masked(address, bits), Some(bits))
    }

    /// Not [`ExtractErrorKind::Missing`](super::ExtractErrorKind): a fallback must not hide a proxy
    /// that appends nothing.
    fn missing(&self) -> ExtractError {
        ExtractError::malformed(
            self.chain.name().as_str(),
            "as many addresses as trusted proxies append",
        )
    }

    fn malformed(&self) -> ExtractError {
        ExtractError::malformed(self.chain.name().as_str(), READABLE)
    }
}

impl Extract for ClientIp {
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        subject.push("ip=");
        match ((self.peer)(request.extensions), &self.trust) {
            // The most frequent case, kept small so that it is inlined.
            (Some(SocketAddr::V4(peer)), TrustedProxies::None) => {
                push_v4(peer.ip().octets(), subject);
                Ok(())
            }
            (peer, _) => self.push_client(peer, request, subject),
        }
    }
}

impl fmt::Debug for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut client = f.debug_struct("ClientIp");
        client.field("trust", &self.trust).field("chain", &self.chain);
        client.field("v6_prefix", &self.v6_prefix).finish_non_exhaustive()
    }
}

/// Appends an IPv4 address. Its `Display` would take longer than the rest of the extractor.
fn push_v4(octets: [u8; 4], subject: &mut Subject) {
    for (index, octet) in octets.into_iter().enumerate() {
        subject.push(if index > 0 { "." } else { "" });
        subject.push(itoa::Buffer::new().format(octet));
    }
}

fn accepted_prefix(bits: u8) -> Result<u8> {
    if (16..=128).contains(&bits) {
        return Ok(bits);
    }
    Err(Error::config("ipv6_prefix", format!("{bits} is out of range; accepted: 16 to 128")))
}

fn parsed<'a>(networks: impl IntoIterator<Item = &'a str>) -> Result<Vec<Network>> {
    networks.into_iter().map(Network::from_str).collect()
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;

    #[test]
    fn addresses_are_written_as_the_standard_library_does() {
        for octet in 0..=255_u8 {
            let address = Ipv4Addr::new(octet, 255 - octet, octet / 2, octet);
            let mut subject = Subject::default();
            push_v4(address.octets(), &mut subject);
            assert_eq!(subject.as_str(), address.to_string());
        }
    }
}

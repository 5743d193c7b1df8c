//! The address of the client, safe by default: the peer, unless proxies are trusted by name.
//!
//! Behind trusted proxies the chain is walked from the right until an address is not trusted: the
//! first one that a trusted proxy has seen and that is no trusted proxy itself. What stands to the
//! left of it was written by the client and is never read. A peer that is not trusted is the
//! client, whatever its headers say. A chain that is missing, too short or not readable where it
//! matters is an error: falling back to the proxy would put everybody into one bucket.

mod chain;
mod network;
mod octets;
mod peer;

use core::fmt::{self, Write};
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU8;
use core::str::FromStr;

use http::Extensions;
use tollgate::{Error, Result};

use super::{Extract, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

use network::{masked, unmapped};
use octets::push_v4;

pub use chain::Chain;
pub use network::Network;
pub use peer::Peer;

/// One customer of an access provider has at least so much.
const V6_PREFIX: u8 = 64;
const READABLE: &str = "addresses that trusted proxies appended";

/// The address of the client; IPv6 addresses count by their /64 network.
#[derive(Clone)]
pub struct ClientIp {
    peer: fn(&Extensions) -> Option<SocketAddr>,
    trust: Trust,
    chain: Chain,
    v6_prefix: u8,
    v6_overrides: Vec<(Network, u8)>,
}

#[derive(Clone, Debug)]
enum Trust {
    Nobody,
    Networks(Vec<Network>),
    Hops(NonZeroU8),
}

impl ClientIp {
    /// The address of the peer, from the extension `P` that the server leaves in its requests.
    #[must_use]
    pub fn peer<P: Peer>() -> Self {
        Self {
            peer: |extensions| extensions.get::<P>().and_then(P::address),
            trust: Trust::Nobody,
            chain: Chain::default(),
            v6_prefix: V6_PREFIX,
            v6_overrides: Vec::new(),
        }
    }

    /// Trusts the proxies in these networks to have appended whom they heard from. A request of
    /// any other peer is charged to that peer.
    ///
    /// # Errors
    /// `config_invalid` naming the field `network` when a text is no network.
    pub fn behind<'a>(mut self, proxies: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        self.trust = Trust::Networks(parsed(proxies)?);
        Ok(self)
    }

    /// Trusts the last `hops` proxies, whatever their addresses: for servers that can be reached
    /// through all of them only.
    ///
    /// # Errors
    /// `config_invalid` naming the field `hops` when it is 0.
    pub fn behind_hops(mut self, hops: u8) -> Result<Self> {
        let zero = || Error::config("hops", "0 is out of range; accepted: 1 to 255");
        self.trust = Trust::Hops(NonZeroU8::new(hops).ok_or_else(zero)?);
        Ok(self)
    }

    /// Which header the trusted proxies append to; the other one is never read.
    #[must_use]
    pub fn chain(mut self, chain: Chain) -> Self {
        self.chain = chain;
        self
    }

    /// How many leading bits of an IPv6 address count, 64 by default.
    ///
    /// # Errors
    /// `config_invalid` naming the field `ipv6_prefix` when it is not from 16 to 128.
    pub fn ipv6_prefix(mut self, bits: u8) -> Result<Self> {
        self.v6_prefix = accepted_prefix(bits)?;
        Ok(self)
    }

    /// Another number of bits inside one network; the first network that fits counts.
    ///
    /// # Errors
    /// `config_invalid` when the text is no network, or as [`ClientIp::ipv6_prefix`].
    pub fn ipv6_prefix_in(mut self, network: &str, bits: u8) -> Result<Self> {
        self.v6_overrides.push((network.parse()?, accepted_prefix(bits)?));
        Ok(self)
    }

    /// A rule that holds for clients in these networks: an allow list for
    /// [`skip`](crate::RateLimitBuilder::skip). It does not hold for a client that is not known.
    ///
    /// # Errors
    /// `config_invalid` naming the field `network` when a text is no network.
    pub fn within<'a>(
        self,
        networks: impl IntoIterator<Item = &'a str>,
    ) -> Result<impl Fn(&Head<'_>) -> bool + Send + Sync + 'static> {
        let networks: Vec<Network> = parsed(networks)?;
        Ok(move |head: &Head<'_>| {
            let client = self.address(head);
            client.is_ok_and(|client| networks.iter().any(|network| network.contains(client)))
        })
    }

    /// The address of the client, all of it.
    ///
    /// # Errors
    /// When the server does not say who the peer is, or the chain of a trusted proxy is missing or
    /// cannot be read.
    pub fn address(&self, head: &Head<'_>) -> Result<IpAddr, Unkeyed> {
        self.client((self.peer)(head.extensions), head)
    }

    /// The same, where the peer has been looked up.
    fn client(&self, peer: Option<SocketAddr>, head: &Head<'_>) -> Result<IpAddr, Unkeyed> {
        let no_peer = || {
            let accepted = "a server that leaves the address of its peer in the extensions";
            Unkeyed::not_provided("peer address", accepted)
        };
        let peer = unmapped(peer.ok_or_else(no_peer)?.ip());
        match &self.trust {
            Trust::Nobody => Ok(peer),
            Trust::Networks(networks) => {
                let is_trusted = |address| networks.iter().any(|one| one.contains(address));
                if !is_trusted(peer) {
                    return Ok(peer);
                }
                let mut chain = self.chain.from_the_right(head.headers);
                let mut client = chain.next().ok_or_else(|| self.missing())?;
                loop {
                    let known = client.ok_or_else(|| self.malformed())?;
                    if !is_trusted(known) {
                        return Ok(known);
                    }
                    match chain.next() {
                        Some(further) => client = further,
                        // All of them are ours: one of our own machines is the client.
                        None => return Ok(known),
                    }
                }
            }
            Trust::Hops(hops) => {
                let mut chain = self.chain.from_the_right(head.headers);
                let client = chain.nth(usize::from(hops.get() - 1));
                client.ok_or_else(|| self.missing())?.ok_or_else(|| self.malformed())
            }
        }
    }

    /// Whatever the peer and the chain say.
    #[inline(never)]
    fn push_client(
        &self,
        peer: Option<SocketAddr>,
        head: &Head<'_>,
        subject: &mut Subject,
    ) -> Result<(), Unkeyed> {
        match self.counted(self.client(peer, head)?) {
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

    /// Not [`Trouble::Missing`](super::Trouble): no fallback must hide that a proxy is not ours.
    fn missing(&self) -> Unkeyed {
        Unkeyed::malformed(
            self.chain.name().as_str(),
            "as many addresses as trusted proxies append",
        )
    }

    fn malformed(&self) -> Unkeyed {
        Unkeyed::malformed(self.chain.name().as_str(), READABLE)
    }
}

impl Extract for ClientIp {
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        subject.push("ip=");
        match ((self.peer)(head.extensions), &self.trust) {
            // The usual case is short enough to be laid out in one piece.
            (Some(SocketAddr::V4(peer)), Trust::Nobody) => {
                push_v4(peer.ip().octets(), subject);
                Ok(())
            }
            (peer, _) => self.push_client(peer, head, subject),
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

fn accepted_prefix(bits: u8) -> Result<u8> {
    if (16..=128).contains(&bits) {
        return Ok(bits);
    }
    Err(Error::config("ipv6_prefix", format!("{bits} is out of range; accepted: 16 to 128")))
}

fn parsed<'a>(networks: impl IntoIterator<Item = &'a str>) -> Result<Vec<Network>> {
    networks.into_iter().map(Network::from_str).collect()
}

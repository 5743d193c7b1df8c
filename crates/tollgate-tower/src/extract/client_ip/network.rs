//! Networks in CIDR notation, and addresses by their bits.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use tollgate::Error;

const V4_BITS: u8 = 32;
const V6_BITS: u8 = 128;

/// A network: an address, and the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is in this network. An IPv4 address equals its IPv6-mapped form.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        masked(unmapped(address), self.bits) == self.address
    }
}

/// `10.0.0.0/8`, `2001:db8::/32`, or a single address.
impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::config(
                "network",
                format!("{why}; accepted: an address and a prefix, 10.0.0.0/8"),
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let written: IpAddr = address.trim().parse().map_err(|_| wrong("is no address"))?;
        let most = width(written);
        let bits =
            bits.map_or(Ok(most), |bits| bits.trim().parse().map_err(|_| wrong("has no prefix")));
        let bits = bits?;
        if bits > most {
            return Err(wrong("has a prefix that is too long"));
        }
        let address = unmapped(written);
        // A network of mapped addresses is a network of IPv4 addresses, if it is not wider.
        let mapped_away = most - width(address);
        let Some(bits) = bits.checked_sub(mapped_away) else {
            return Err(wrong("mixes IPv4 and IPv6"));
        };
        if masked(address, bits) != address {
            return Err(wrong("has bits beyond its prefix"));
        }
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// An IPv4-mapped IPv6 address as the IPv4 address, by its bits and in any notation.
pub(super) fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The address with all but its leading bits cleared.
pub(super) fn masked(address: IpAddr, bits: u8) -> IpAddr {
    let unused = u32::from(width(address).saturating_sub(bits));
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(unused).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(unused).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => V4_BITS,
        IpAddr::V6(_) => V6_BITS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        for (net, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"),
            ("::ffff:10.0.0.0/104", "10.9.9.9", "::10.9.9.9"),
            ("10.0.0.0/8", "::ffff:a01:203", "64:ff9b::a01:203"),
        ] {
            assert!(network(net).contains(inside.parse().unwrap()), "{inside} in {net}");
            assert!(!network(net).contains(outside.parse().unwrap()), "{outside} not in {net}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.1/8",
            "x/8",
            "10.0.0.0/",
            "::ffff:0:0/95",
            "1.2.3.4/-1",
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert_eq!(error.field(), Some("network"), "{text}");
        }
    }

    #[test]
    fn a_mask_of_every_width_clears_the_rest() {
        let ones: IpAddr = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff".parse().unwrap();
        assert_eq!(masked(ones, 128), ones);
        assert_eq!(masked(ones, 64), "ffff:ffff:ffff:ffff::".parse::<IpAddr>().unwrap());
        assert_eq!(masked(ones, 0), "::".parse::<IpAddr>().unwrap());
        assert_eq!(masked("1.2.3.4".parse().unwrap(), 0), "0.0.0.0".parse::<IpAddr>().unwrap());
    }
}

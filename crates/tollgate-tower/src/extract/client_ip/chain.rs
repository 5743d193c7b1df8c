//! The chain of addresses that proxies append to a header, read from the right: only its right end
//! was written by trusted proxies.
//!
//! Elements end at commas, also at commas inside quotes. Trusted proxies write no such commas, and
//! an open quote in the text of a client must not hide the elements to the right of it.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderName, header};

use super::network::unmapped;

/// The header that proxies append to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Chain {
    /// `X-Forwarded-For: client, proxy`.
    #[default]
    XForwardedFor,
    /// `Forwarded: for=client, for=proxy` (RFC 7239).
    Forwarded,
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl Chain {
    /// The name of the header.
    #[must_use]
    pub fn name(self) -> HeaderName {
        match self {
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => header::FORWARDED,
        }
    }

    /// The elements from the right, over all lines of the header; `None` for an element that is no
    /// address.
    pub fn from_the_right(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> + '_ {
        let lines = headers.get_all(self.name()).iter().rev();
        lines.flat_map(move |line| self.of_line(line.as_bytes()))
    }

    /// The elements of one line, from the right.
    pub fn of_line(self, line: &[u8]) -> impl Iterator<Item = Option<IpAddr>> + '_ {
        line.rsplit(|byte| *byte == b',').map(move |element| self.address(element))
    }

    fn address(self, element: &[u8]) -> Option<IpAddr> {
        let element = core::str::from_utf8(element).ok()?.trim_matches(is_blank);
        match self {
            Self::XForwardedFor => node(element),
            Self::Forwarded => node(forwarded_for(element)?),
        }
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

/// The one `for` of an element `for=…;by=…;host=…;proto=…`.
fn forwarded_for(element: &str) -> Option<&str> {
    let mut found = None;
    for pair in element.split(';').filter(|pair| !pair.trim_matches(is_blank).is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let value = value.trim_end_matches(is_blank);
        let inner = match value.strip_prefix('"') {
            Some(open) => open.strip_suffix('"')?,
            None => value,
        };
        if inner.contains(['"', '\\']) {
            return None;
        }
        if name.trim_start_matches(is_blank).eq_ignore_ascii_case("for") {
            // Two of them are contradictory.
            if found.replace(inner).is_some() {
                return None;
            }
        }
    }
    found
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn node(text: &str) -> Option<IpAddr> {
    let plain = || text.parse::<IpAddr>().ok();
    let bracketed = || {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    };
    let with_port = || text.parse::<SocketAddr>().ok().map(|socket| socket.ip());
    plain().or_else(bracketed).or_else(with_port).map(unmapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chain: Chain, line: &str) -> Vec<Option<String>> {
        chain.of_line(line.as_bytes()).map(|one| one.map(|ip| ip.to_string())).collect()
    }

    #[test]
    fn addresses_are_read_in_every_form() {
        for (text, address) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("2001:DB8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("::ffff:c000:201", "192.0.2.1"),
            ("[::ffff:c000:0201]:1", "192.0.2.1"),
            ("\t 192.0.2.1 ", "192.0.2.1"),
        ] {
            assert_eq!(read(Chain::XForwardedFor, text), [Some(address.to_owned())], "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_none() {
        for text in [
            "",
            "unknown",
            "_hidden",
            "192.0.2",
            "192.0.2.256",
            "192.0.2.1:",
            "192.0.2.1:65536",
            "[192.0.2.1]",
            "[::1",
            "::1]",
            "[::1]:",
            "[::1]x",
            "1.2.3.4 5.6.7.8",
            "\"1.2.3.4\"",
            "0300.0.2.1",
            "3221225985",
            "0xc0000201",
            "fe80::1%eth0",
            "1.2.3.4\u{0}",
            "for=1.2.3.4",
        ] {
            assert_eq!(read(Chain::XForwardedFor, text), [None], "{text:?}");
        }
    }

    #[test]
    fn elements_come_from_the_right() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read(Chain::XForwardedFor, "1.1.1.1, x ,,2.2.2.2"),
            [some("2.2.2.2"), None, None, some("1.1.1.1")]
        );
        assert_eq!(
            read(Chain::Forwarded, "for=1.1.1.1;proto=http, For=\"[2001:db8::1]:80\" ;by=_x"),
            [some("2001:db8::1"), some("1.1.1.1")]
        );
    }

    #[test]
    fn a_quote_to_the_left_swallows_nothing() {
        for line in
            ["for=\"6.6.6.6, for=2.2.2.2", "for=6.6.6.6;x=\", for=2.2.2.2", "\", for=2.2.2.2"]
        {
            let first = read(Chain::Forwarded, line).into_iter().next().flatten();
            assert_eq!(first.as_deref(), Some("2.2.2.2"), "{line}");
        }
        for line in
            ["for=2.2.2.2;host=\"a, for=6.6.6.6\"", "for=1.1.1.1;for=2.2.2.2", "by=2.2.2.2", "for"]
        {
            assert_eq!(read(Chain::Forwarded, line).first(), Some(&None), "{line}");
        }
    }
}

//! A hundred ways to forge the address of a request. None of them changes the subject.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderValue, Request};
use tollgate_testkit::rng::Rng;
use tollgate_tower::extract::client_ip::Chain;
use tollgate_tower::extract::{ClientIp, Extract, ExtractError, ExtractErrorKind};
use tollgate_tower::{RateLimitLayer, RequestParts, Subject};

use crate::support::{hello, limiter, peer, per_minute, runtime};

const SINGLE: [&str; 61] = [
    "6.6.6.6",
    "127.0.0.1",
    "10.0.0.1",
    "0.0.0.0",
    "255.255.255.255",
    "::1",
    "::",
    "2001:db8::6",
    "::ffff:6.6.6.6",
    "::ffff:606:606",
    "[::1]",
    "[2001:db8::6]:80",
    "6.6.6.6:80",
    "6.6.6.6:0",
    "6.6.6.6:99999",
    "localhost",
    "unknown",
    "_hidden",
    "-",
    "null",
    "undefined",
    "6.6.6",
    "6.6.6.6.6",
    "06.06.06.06",
    "0x06060606",
    "101058054",
    "6.6.6.6/32",
    "fe80::1%eth0",
    "[::1",
    "::1]",
    "\"6.6.6.6\"",
    "for=6.6.6.6",
    "for=\"6.6.6.6",
    "for=\"[::1]:80\";by=x",
    "6.6.6.6;7.7.7.7",
    "6.6.6.6 7.7.7.7",
    "",
    " ",
    "\t",
    ",",
    ",,,,",
    ", 6.6.6.6",
    "6.6.6.6,",
    "6.6.6.6, ",
    "6.6.6.6,7.7.7.7",
    "a, b, c",
    "\\",
    "%00",
    "%2c",
    "../../etc/passwd",
    "' OR 1=1 --",
    "{{7*7}}",
    "${jndi:ldap://x}",
    "<script>",
    "64:ff9b::606:606",
    "2002:606:606::",
    "::6.6.6.6",
    "1e1.1.1.1",
    "+6.6.6.6",
    "6.6.6.6\u{a0}",
    "６.６.６.６",
];

/// Lines with which a client may try to forge another address, or to break the parser.
fn forgeries() -> Vec<Vec<u8>> {
    let mut forged: Vec<Vec<u8>> = SINGLE.iter().map(|text| text.as_bytes().to_vec()).collect();
    // Chains with the addresses of trusted proxies.
    for trusted in ["10.0.0.1", "10.0.0.2:443", "[::ffff:10.0.0.3]:1", "::ffff:a00:4"] {
        for text in ["6.6.6.6", "unknown", "::1", "\"", "for=\"", "127.0.0.1"] {
            forged.push(format!("{text}, {trusted}").into_bytes());
            forged.push(format!("{trusted}, {text}").into_bytes());
        }
    }
    // Ten kilobytes of several kinds.
    for piece in ["6.6.6.6, ", "10.0.0.1,", ",", "[", "\"", "a", "for=6.6.6.6,"] {
        forged.push(piece.repeat(10_240 / piece.len()).into_bytes());
    }
    forged.extend([vec![0xff, 0xfe], b"6.6.6.6\xff".to_vec(), vec![0x80; 10_240]]);
    forged
}

const LINES: [&str; 6] = [
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "cf-connecting-ip",
    "true-client-ip",
    "x-client-ip",
];

fn request(from: &str, lines: &[(&str, &[u8])]) -> Request<()> {
    let mut request = Request::new(());
    let from: IpAddr = from.parse().unwrap();
    request.extensions_mut().insert(SocketAddr::new(from, 4_711));
    for (name, value) in lines {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().append(name, HeaderValue::from_bytes(value).unwrap());
    }
    request
}

fn subject(client: &ClientIp, request: &Request<()>) -> Result<String, ExtractError> {
    let mut subject = Subject::default();
    client.extract(&RequestParts::of(request), &mut subject)?;
    Ok(subject.as_str().to_owned())
}

fn plain() -> ClientIp {
    ClientIp::peer::<SocketAddr>()
}

fn behind_ours(chain: Chain) -> ClientIp {
    plain().behind(["10.0.0.0/8"]).unwrap().chain(chain)
}

#[test]
fn there_are_a_hundred_ways() {
    assert!(forgeries().len() > 100, "{}", forgeries().len());
}

#[test]
fn an_untrusted_client_is_its_peer_whatever_it_sends() {
    let clients = [plain(), behind_ours(Chain::XForwardedFor), behind_ours(Chain::Forwarded)];
    for client in &clients {
        for forged in forgeries() {
            for name in LINES {
                let request =
                    request("192.0.2.7", &[(name, &forged), (name, b"6.6.6.6"), (name, &forged)]);
                assert_eq!(
                    subject(client, &request).as_deref(),
                    Ok("ip=192.0.2.7"),
                    "{name}: {forged:?}"
                );
            }
        }
    }
}

#[test]
fn behind_a_proxy_what_the_client_wrote_is_never_read() {
    for forged in forgeries() {
        // The proxy appends to the line of the client, or adds a line of its own.
        let appended = |text: &str| [&forged[..], b", ", text.as_bytes()].concat();
        let by_networks = behind_ours(Chain::XForwardedFor);
        let by_hops = plain().behind_hops(1).unwrap();
        for client in [&by_networks, &by_hops] {
            let one_line = request("10.0.0.1", &[("x-forwarded-for", &appended("192.0.2.7"))]);
            let own_line = request(
                "10.0.0.1",
                &[("x-forwarded-for", &forged), ("x-forwarded-for", b"192.0.2.7:9")],
            );
            for request in [one_line, own_line] {
                assert_eq!(subject(client, &request).as_deref(), Ok("ip=192.0.2.7"), "{forged:?}");
            }
        }
        let standard = behind_ours(Chain::Forwarded);
        for element in ["for=192.0.2.7", "for=\"192.0.2.7:80\";proto=https;by=10.0.0.1"] {
            let request = request("10.0.0.1", &[("forwarded", &appended(element))]);
            assert_eq!(subject(&standard, &request).as_deref(), Ok("ip=192.0.2.7"), "{forged:?}");
        }
        // Two proxies of ours, one behind the other.
        let request = request("10.0.0.2", &[("x-forwarded-for", &appended("192.0.2.7, 10.0.0.1"))]);
        assert_eq!(subject(&by_networks, &request).as_deref(), Ok("ip=192.0.2.7"));
        let two_hops = plain().behind_hops(2).unwrap();
        assert_eq!(subject(&two_hops, &request).as_deref(), Ok("ip=192.0.2.7"));
    }
}

#[test]
fn a_chain_that_is_missing_or_garbled_is_refused_and_not_pooled() {
    let clients = [
        behind_ours(Chain::XForwardedFor),
        plain().behind_hops(1).unwrap(),
        plain().behind_hops(2).unwrap(),
    ];
    for client in clients.map(|client| client.or(plain())) {
        for lines in
            [&[][..], &[("x-forwarded-for", b"unknown" as &[u8])], &[("x-forwarded-for", b"")]]
        {
            let mut subject = Subject::default();
            let request = request("10.0.0.1", lines);
            let error = client.extract(&RequestParts::of(&request), &mut subject).unwrap_err();
            assert_eq!(
                (error.kind, &*error.field),
                (ExtractErrorKind::Malformed, "x-forwarded-for")
            );
        }
    }
    let without_peer = Request::new(());
    assert_eq!(subject(&plain(), &without_peer).unwrap_err().kind, ExtractErrorKind::NotProvided);
}

#[test]
fn addresses_are_unified_by_their_bits_and_networks_by_their_prefix() {
    let of = |client: &ClientIp, from: &str| subject(client, &request(from, &[])).unwrap();
    let client = plain();
    assert_eq!(of(&client, "::ffff:192.0.2.7"), "ip=192.0.2.7");
    assert_eq!(of(&client, "64:ff9b::c000:207"), "ip=64:ff9b::/64", "NAT64 is not IPv4-mapped");
    assert_eq!(of(&client, "2001:db8:1:2:3:4:5:6"), "ip=2001:db8:1:2::/64");
    assert_eq!(of(&client, "2001:db8:1:2:ffff::"), of(&client, "2001:db8:1:2::1"));
    assert_ne!(of(&client, "2001:db8:1:3::1"), of(&client, "2001:db8:1:2::1"));
    let client = client.ipv6_prefix(56).unwrap().ipv6_prefix_in("2001:db8:ff::/48", 128).unwrap();
    assert_eq!(of(&client, "2001:db8:1:2ff::1"), "ip=2001:db8:1:200::/56");
    assert_eq!(of(&client, "2001:db8:ff::1"), "ip=2001:db8:ff::1");
    // A mapped peer is a trusted proxy if its IPv4 address is.
    let request = request("::ffff:10.0.0.1", &[("x-forwarded-for", b"2001:db8::1")]);
    assert_eq!(
        subject(&behind_ours(Chain::XForwardedFor), &request).as_deref(),
        Ok("ip=2001:db8::/64")
    );
}

#[test]
fn bad_settings_are_refused() {
    assert_eq!(plain().behind(["10.0.0.0/40"]).unwrap_err().field(), Some("network"));
    assert_eq!(plain().behind_hops(0).unwrap_err().field(), Some("hops"));
    assert_eq!(plain().ipv6_prefix(0).unwrap_err().field(), Some("ipv6_prefix"));
    assert_eq!(plain().ipv6_prefix(129).unwrap_err().field(), Some("ipv6_prefix"));
}

/// What the fuzz target does, over a million seeded lines: made of the bytes that matter.
#[test]
fn a_million_random_lines_change_nothing() {
    const SEED: u64 = 0x0F0F_5EED;
    println!("seed {SEED}");
    let mut rng = Rng::new(SEED);
    let pieces: [&[u8]; 16] = [
        b"6.6.6.6",
        b"10.0.0.1",
        b"::1",
        b"[",
        b"]",
        b":",
        b",",
        b" ",
        b"\"",
        b"for=",
        b";",
        b"\\",
        b"=",
        b"%",
        b"9",
        b"\xff",
    ];
    let mut line = Vec::new();
    let ours = |text: &str| text.parse::<IpAddr>().unwrap();
    for index in 0..1_000_000_u32 {
        line.clear();
        for _ in 0..rng.below(12) {
            let piece = pieces[usize::try_from(rng.below(16)).unwrap()];
            line.extend_from_slice(piece);
        }
        for (chain, element) in
            [(Chain::XForwardedFor, &b"192.0.2.7"[..]), (Chain::Forwarded, b"for=192.0.2.7")]
        {
            // The right end is what the proxy appended, whatever stands before it.
            let whole = [&line[..], b",", element].concat();
            let first = chain.of_line(&whole).next().unwrap();
            assert_eq!(first, Some(ours("192.0.2.7")), "line {index}: {line:?}");
            // Nothing is read into the rest but addresses that are there, one per element at most.
            let elements = line.split(|byte| *byte == b',').count();
            assert_eq!(chain.of_line(&whole).count(), elements + 1);
        }
    }
}

#[test]
fn over_a_real_connection_no_header_makes_another_client() {
    runtime().block_on(async {
        let server =
            hello(RateLimitLayer::new(limiter().0, per_minute("p", 1), peer()).unwrap()).await;
        assert_eq!(server.get("/").await.status(), 200);
        for forged in forgeries() {
            let Ok(text) = String::from_utf8(forged) else { continue };
            if HeaderValue::from_str(&text).is_err() {
                continue;
            }
            for name in LINES {
                assert_eq!(
                    server.get_with("/", &[(name, &text)]).await.status(),
                    429,
                    "{name}: {text}"
                );
            }
        }
    });
}

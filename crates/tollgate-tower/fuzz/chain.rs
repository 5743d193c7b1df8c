//! Whatever a client writes, the right end of a chain is what the proxy appended.
//!
//! `cargo run --release -p xtask -- soak fuzz 10 chain`. The tests of the crate run the same over a
//! million seeded lines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_tower::extract::client_ip::Chain;

fuzz_target!(|line: &[u8]| {
    let proxies = [(Chain::XForwardedFor, &b"192.0.2.7"[..]), (Chain::Forwarded, b"for=192.0.2.7")];
    for (chain, element) in proxies {
        let whole = [line, b",", element].concat();
        let first = chain.of_line(&whole).next().flatten();
        assert_eq!(first.map(|address| address.to_string()).as_deref(), Some("192.0.2.7"));
        let elements = line.split(|byte| *byte == b',').count();
        assert_eq!(chain.of_line(&whole).count(), elements + 1);
    }
});

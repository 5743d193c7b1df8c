//! The decimal texts of octets, worked out by the compiler: formatting them anew would be a good
//! part of what a layer costs.

use crate::subject::Subject;

/// Every octet, with the dot that follows it.
static DOTTED: [&str; 256] = dotted();
static DIGITS: [[u8; 4]; 256] = digits();

/// Appends an IPv4 address. Part of its callers, for it is most of what they do.
#[inline(always)]
pub(super) fn push_v4(octets: [u8; 4], subject: &mut Subject) {
    let [first, second, third, last] = octets;
    for octet in [first, second, third] {
        let text = DOTTED.get(usize::from(octet)).copied().unwrap_or_default();
        match octet {
            0..10 => subject.push_exactly::<2>(text),
            10..100 => subject.push_exactly::<3>(text),
            _ => subject.push_exactly::<4>(text),
        }
    }
    let text = DOTTED.get(usize::from(last)).copied().unwrap_or_default();
    match last {
        0..10 => subject.push_exactly::<1>(text),
        10..100 => subject.push_exactly::<2>(text),
        _ => subject.push_exactly::<3>(text),
    }
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler only")]
const fn digits() -> [[u8; 4]; 256] {
    let mut all = [[0; 4]; 256];
    let mut octet = 0_u8;
    loop {
        let mut place = 0;
        if octet >= 100 {
            all[octet as usize][place] = b'0' + octet / 100;
            place += 1;
        }
        if octet >= 10 {
            all[octet as usize][place] = b'0' + octet / 10 % 10;
            place += 1;
        }
        all[octet as usize][place] = b'0' + octet % 10;
        all[octet as usize][place + 1] = b'.';
        if octet == u8::MAX {
            return all;
        }
        octet += 1;
    }
}

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler only")]
const fn dotted() -> [&'static str; 256] {
    let mut all = [""; 256];
    let mut octet = 0;
    while octet < all.len() {
        let length = match octet {
            0..10 => 2,
            10..100 => 3,
            _ => 4,
        };
        let (text, _) = DIGITS[octet].split_at(length);
        if let Ok(text) = core::str::from_utf8(text) {
            all[octet] = text;
        }
        octet += 1;
    }
    all
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

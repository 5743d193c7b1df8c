//! The hash slots of a cluster: which keys live together.

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The slot of a key: of what stands between its first `{` and the next `}`, if that is anything, else
/// of all of it.
///
/// ```
/// use tollgate_redis::slot::slot_of;
///
/// assert_eq!(slot_of("tollgate:api:{ada}"), slot_of("tollgate:login:{ada}"));
/// ```
#[must_use]
pub fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let hashed = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key);
    checksum(hashed.as_bytes()) % SLOTS
}

/// CRC-16 with the polynomial 0x1021, beginning at 0.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        let index = (sum >> 8) ^ u16::from(*byte);
        // The index is below 256, for which there is always an entry.
        (sum << 8) ^ TABLE.get(usize::from(index)).copied().unwrap_or_default()
    })
}

static TABLE: [u16; 256] = table();

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks the bounds")]
const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    let mut high = 0_u16;
    while index < 256 {
        let mut sum = high;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 == 0 { sum << 1 } else { (sum << 1) ^ 0x1021 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
        high = high.wrapping_add(0x0100);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_cluster_specification() {
        assert_eq!(checksum(b"123456789"), 0x31c3);
        assert_eq!(slot_of("foo"), 12_182);
    }

    #[test]
    fn only_a_tag_that_is_not_empty_is_hashed() {
        assert_eq!(slot_of("a{foo}b{bar}"), slot_of("foo"));
        assert_eq!(slot_of("{foo"), checksum(b"{foo") % SLOTS);
        assert_eq!(slot_of("foo{}{bar}"), checksum(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of("foo{{bar}}"), checksum(b"{bar") % SLOTS);
    }
}

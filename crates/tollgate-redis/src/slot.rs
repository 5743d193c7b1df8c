//! The hash slots of a cluster: CRC16 of the key, or of the part between its first braces.

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// The slot of a key.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(tag_of(key)) % SLOTS
}

/// What is hashed: the text between the first `{` and the next `}`, if there is any.
fn tag_of(key: &[u8]) -> &[u8] {
    let tag = || {
        let open = key.iter().position(|byte| *byte == b'{')? + 1;
        let inner = key.get(open..)?;
        let close = inner.iter().position(|byte| *byte == b'}')?;
        inner.get(..close).filter(|tag| !tag.is_empty())
    };
    tag().unwrap_or(key)
}

/// CRC-16/XMODEM, as the cluster specification says; a byte at a time, without a table.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0_u16, |crc, byte| {
        let crc = crc.swap_bytes() ^ u16::from(*byte);
        let crc = crc ^ ((crc & 0xff) >> 4);
        let crc = crc ^ (crc << 12);
        crc ^ ((crc & 0xff) << 5)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b"somekey"), 11_058);
        assert_eq!(slot_of(b"foo{hash_tag}"), 2_515);
    }

    #[test]
    fn only_a_tag_that_is_not_empty_counts() {
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{{bar}"));
        assert_eq!(slot_of(b"{"), crc16(b"{") % SLOTS);
    }
}

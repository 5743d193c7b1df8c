//! The few fields of protocol buffers and the frames of gRPC that the benchmark needs, by hand.

use bytes::{BufMut as _, Bytes, BytesMut};

/// The bytes before a message: not compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(BytesMut);

impl Message {
    /// Adds text.
    pub(super) fn text(mut self, field: u8, text: &str) -> Self {
        self.0.put_u8(field << 3 | 2);
        varint(&mut self.0, text.len() as u64);
        self.0.put_slice(text.as_bytes());
        self
    }

    /// Adds a number.
    pub(super) fn number(mut self, field: u8, number: u64) -> Self {
        self.0.put_u8(field << 3);
        varint(&mut self.0, number);
        self
    }

    /// The message in its frame.
    pub(super) fn framed(self) -> Bytes {
        let mut frame = BytesMut::with_capacity(PREFIX + self.0.len());
        frame.put_u8(0);
        frame.put_u32(u32::try_from(self.0.len()).unwrap_or_default());
        frame.put_slice(&self.0);
        frame.freeze()
    }
}

fn varint(bytes: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        bytes.put_u8((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    bytes.put_u8(number as u8);
}

/// The fields of a framed message whose values are texts or numbers, in order.
#[derive(Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    /// Of a frame.
    pub(super) fn of(frame: &'a [u8]) -> Self {
        Self(frame.get(PREFIX..).unwrap_or_default())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u64, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        match tag & 7 {
            0 => Some((tag >> 3, Value::Number(self.varint()?))),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Some((tag >> 3, Value::Bytes(bytes)))
            }
            _ => None,
        }
    }
}

/// Whether the first field of a reply, a boolean, is true: both services begin so. An outcome of a
/// stream has such a reply as its first field.
pub(super) fn is_allowed(frame: &[u8]) -> bool {
    let first = match Fields::of(frame).next() {
        Some((1, Value::Bytes(decision))) => Fields(decision).next(),
        first => first,
    };
    first == Some((1, Value::Number(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let frame = Message::default().text(1, "bench").number(3, 300).text(15, "").framed();
        let fields: Vec<_> = Fields::of(&frame).collect();
        let text = Value::Bytes(b"bench");
        assert_eq!(fields, [(1, text), (3, Value::Number(300)), (15, Value::Bytes(b""))]);
        assert_eq!(frame[..PREFIX], [0, 0, 0, 0, 12]);
        assert!(is_allowed(&Message::default().number(1, 1).framed()));
        assert!(!is_allowed(&Message::default().number(2, 2).framed()));
        assert!(is_allowed(&Message::default().text(1, "\u{8}\u{1}").framed()));
        assert!(!is_allowed(&Message::default().text(1, "\u{8}").framed()));
    }
}

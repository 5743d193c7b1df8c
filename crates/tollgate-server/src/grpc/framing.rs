//! Messages in bodies: each has a prefix, whether it is compressed and its length.

use bytes::{Buf, BytesMut};
use hyper::body::Bytes;

/// The bytes before a message.
pub(super) const PREFIX_BYTES: usize = 5;

/// The message of a body that is exactly one, not compressed.
pub(super) fn only_message(body: &Bytes) -> Option<&[u8]> {
    let (prefix, message) = body.split_first_chunk()?;
    (length(*prefix) == Some(message.len())).then_some(message)
}

/// Bytes at the beginning of which there is no message, and never will be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Compressed,
    /// Longer than accepted.
    Long(usize),
}

/// Takes the next message of at most `max` bytes, if it is complete.
pub(super) fn next_message(
    input: &mut BytesMut,
    max: usize,
) -> Result<Option<BytesMut>, Unreadable> {
    let Some((prefix, rest)) = input.split_first_chunk() else { return Ok(None) };
    let length = length(*prefix).ok_or(Unreadable::Compressed)?;
    if length > max {
        return Err(Unreadable::Long(length));
    }
    if rest.len() < length {
        return Ok(None);
    }
    input.advance(PREFIX_BYTES);
    Ok(Some(input.split_to(length)))
}

/// Appends what `write` appends, as a message with its prefix.
pub(super) fn put_message(output: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = output.len();
    output.extend_from_slice(&[0; PREFIX_BYTES]);
    write(output);
    let length = output.len() - start - PREFIX_BYTES;
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    if let Some(prefix) = output.get_mut(start + 1..start + PREFIX_BYTES) {
        prefix.copy_from_slice(&length);
    }
}

/// The length in a prefix; none of a message that is compressed.
fn length([compressed, length @ ..]: [u8; PREFIX_BYTES]) -> Option<usize> {
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    (compressed == 0).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_at_every_split() {
        let mut bytes = Vec::new();
        let messages: [&[u8]; 3] = [b"one", b"", b"three"];
        for message in messages {
            put_message(&mut bytes, |output| output.extend_from_slice(message));
        }
        for piece in 1..=bytes.len() {
            let (mut input, mut read) = (BytesMut::new(), Vec::new());
            for bytes in bytes.chunks(piece) {
                input.extend_from_slice(bytes);
                while let Some(message) = next_message(&mut input, 5).unwrap() {
                    read.push(message);
                }
            }
            assert_eq!(read, messages, "{piece}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let read = |bytes: &[u8]| next_message(&mut BytesMut::from(bytes), 5);
        assert_eq!(read(b"\x01\0\0\0\x01a"), Err(Unreadable::Compressed));
        assert_eq!(read(b"\0\0\0\0\x06"), Err(Unreadable::Long(6)));
        let only = |bytes: &'static [u8]| only_message(&Bytes::from_static(bytes)).is_some();
        assert!(only(b"\0\0\0\0\x01a") && only(b"\0\0\0\0\0"));
        for wrong in
            [b"".as_slice(), b"\0\0\0\0", b"\0\0\0\0\x02a", b"\0\0\0\0\0a", b"\x01\0\0\0\0"]
        {
            assert!(!only(wrong), "{wrong:?}");
        }
    }
}

//! Counts the elements of a batch before it is decoded.
//!
//! An empty element takes two bytes on the wire and a hundred in memory: a message that is as long
//! as messages may be would become 50 MiB before its elements could be counted.

use axum::body::Body;
use axum::extract::Request;
use tollgate::Error;
use tollgate_service::engine::BATCH_MAX;
use tonic::Status;

use super::status;

/// The method that takes batches.
const ACQUIRE_MANY: &str = "/tollgate.v1.RateLimiter/AcquireMany";
/// The number of the field with the elements, in `AcquireManyRequest`.
const REQUESTS: u64 = 1;
/// The bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Passes on a request that is no batch, or one with few enough elements.
///
/// # Errors
/// `invalid_request`, or that of reading the body.
pub(super) async fn bounded(request: Request) -> Result<Request, Status> {
    if request.uri().path() != ACQUIRE_MANY {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    // The body is bounded in size and time.
    let whole = axum::body::to_bytes(body, usize::MAX).await;
    let bytes = whole.map_err(|error| Status::from_error(error.into()))?;
    let count = elements(&bytes);
    if count > BATCH_MAX {
        let accepted = format!("has {count} elements; accepted: up to {BATCH_MAX}");
        return Err(status::of(&Error::invalid("requests", accepted).into()));
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// How many elements the messages of a body have, as far as they can be read: decoding stops no
/// later. Fields within groups are counted too, although they are no elements: no client has them.
fn elements(mut body: &[u8]) -> usize {
    let mut count = 0;
    while let Some((prefix, rest)) = body.split_first_chunk::<PREFIX_BYTES>() {
        let [_, length @ ..] = *prefix;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let (mut message, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        while let Some(is_element) = field(&mut message) {
            count += usize::from(is_element);
        }
        body = after;
    }
    count
}

/// Takes a field; whether it is an element. `None` at the end, and at what cannot be read.
fn field(message: &mut &[u8]) -> Option<bool> {
    let key = varint(message)?;
    let length = match key & 7 {
        0 => varint(message).map(|_| 0)?,
        1 => 8,
        2 => usize::try_from(varint(message)?).ok()?,
        // The begin and the end of a group have no content.
        3 | 4 => 0,
        5 => 4,
        _ => return None,
    };
    *message = message.get(length..)?;
    Some(key == REQUESTS << 3 | 2)
}

/// Takes a number of up to ten bytes.
fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..70_u32).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [b"\0".as_slice(), &length, message].concat()
    }

    #[test]
    fn elements_are_counted_in_every_message_and_beside_other_fields() {
        let others = b"\x10\xff\x01\x19abcdefgh\x22\x02\x0a\x00\x2dabcd".as_slice();
        let message = [b"\x0a\x03\x12\x01k".as_slice(), others, b"\x0a\x00"].concat();
        assert_eq!(elements(&framed(&message)), 2);
        let twice = [framed(&message), framed(&message)].concat();
        assert_eq!(elements(&twice), 4);
        // Within a group, and a key that is longer than it has to be.
        assert_eq!(elements(&framed(b"\x0b\x0a\x00\x0c\x8a\x00\x00")), 2);
        assert_eq!(elements(&framed(&b"\x0a\x00".repeat(524_288))), 524_288);
    }

    #[test]
    fn what_cannot_be_read_ends_the_count() {
        assert_eq!(elements(b""), 0);
        assert_eq!(elements(&framed(b"\x0a\x00\x0a\x05k")), 1);
        assert_eq!(elements(&framed(b"\x0a\x00\x0f\x0a\x00")), 1);
        assert_eq!(elements(&framed(&[0xff; 20])), 0);
        let cut = &framed(b"\x0a\x00\x0a\x00")[..7];
        assert_eq!(elements(cut), 1);
    }
}

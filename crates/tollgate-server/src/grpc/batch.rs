//! Counts the elements of a message before it is decoded.
//!
//! An empty element takes two bytes on the wire and a hundred in memory: a message that is as long
//! as messages may be would become 50 MiB before its elements could be counted.

use axum::body::Body;
use axum::extract::Request;
use tollgate::Error;
use tollgate_service::engine::{BATCH_MAX, Failure};
use tollgate_service::policy::LIMITS_MAX;
use tonic::Status;

use super::status;

/// The methods whose messages have elements, and the fields that hold them.
const METHODS: [(&str, Elements); 5] = [
    ("AcquireMany", Elements { requests: Some(1), charges: 6 }),
    ("Acquire", ACQUIRE),
    ("Peek", ACQUIRE),
    ("Forecast", Elements { requests: None, charges: 3 }),
    ("Limits", Elements { requests: None, charges: 3 }),
];
const ACQUIRE: Elements = Elements { requests: None, charges: 6 };
const SERVICE: &str = "/tollgate.v1.RateLimiter/";
/// The bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The numbers of the fields with requests, and within each with charges.
#[derive(Clone, Copy)]
struct Elements {
    requests: Option<u64>,
    charges: u64,
}

/// How many there are in a body.
#[derive(Debug, Default, PartialEq)]
struct Count {
    requests: usize,
    charges: usize,
}

/// Passes on a request that has no elements, or few enough.
///
/// # Errors
/// `invalid_request`, or that of reading the body.
pub(super) async fn bounded(request: Request) -> Result<Request, Status> {
    let method = request.uri().path().strip_prefix(SERVICE);
    let found = METHODS.iter().find(|(name, _)| Some(*name) == method);
    let Some((_, elements)) = found else { return Ok(request) };
    let (parts, body) = request.into_parts();
    // The body is bounded in size and time.
    let whole = axum::body::to_bytes(body, usize::MAX).await;
    let bytes = whole.map_err(|error| Status::from_error(error.into()))?;
    elements.check(elements.count(&bytes)).map_err(|error| status::of(&error.into()))?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// Accepts a message of `Acquire` with few enough charges.
///
/// # Errors
/// `invalid_request`.
pub(super) fn check_charges(message: &[u8]) -> Result<(), Failure> {
    let charges = fields(message, ACQUIRE.charges).count();
    Ok(ACQUIRE.check(Count { requests: 0, charges })?)
}

impl Elements {
    fn check(self, Count { requests, charges }: Count) -> Result<(), Error> {
        let max = if self.requests.is_some() { BATCH_MAX * LIMITS_MAX } else { LIMITS_MAX };
        for (field, count, max) in [("requests", requests, BATCH_MAX), ("charges", charges, max)] {
            if count > max {
                let accepted = format!("has {count} elements; accepted: up to {max}");
                return Err(Error::invalid(field, accepted));
            }
        }
        Ok(())
    }

    /// How many elements the messages of a body have, as far as they can be read: decoding stops
    /// no later. Fields within groups are counted too, although they are no elements: no client
    /// has them.
    fn count(self, mut body: &[u8]) -> Count {
        let mut count = Count::default();
        while let Some((prefix, rest)) = body.split_first_chunk::<PREFIX_BYTES>() {
            let [_, length @ ..] = *prefix;
            let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            let (message, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            match self.requests {
                None => count.charges += fields(message, self.charges).count(),
                Some(number) => {
                    for request in fields(message, number) {
                        count.requests += 1;
                        count.charges += fields(request, self.charges).count();
                    }
                }
            }
            body = after;
        }
        count
    }
}

/// The contents of the fields with a number, up to what cannot be read.
fn fields(mut message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    let mut all = std::iter::from_fn(move || field(&mut message));
    std::iter::from_fn(move || all.by_ref().find(|(key, _)| *key == number << 3 | 2))
        .map(|(_, content)| content)
}

/// Takes a field, its key and its content. `None` at the end, and at what cannot be read.
fn field<'m>(message: &mut &'m [u8]) -> Option<(u64, &'m [u8])> {
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
    let (content, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some((key, content))
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

    const BATCH: Elements = Elements { requests: Some(1), charges: 6 };

    fn elements(body: &[u8]) -> usize {
        BATCH.count(body).requests
    }

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
    fn charges_are_counted_in_every_request() {
        let message = b"\x0a\x04\x32\x00\x32\x00\x0a\x00\x32\x00\x0a\x02\x32\x00";
        let count = BATCH.count(&framed(message));
        assert_eq!(count, Count { requests: 3, charges: 3 });
        let single = Elements { requests: None, charges: 6 };
        let count = single.count(&framed(&b"\x32\x00".repeat(100_000)));
        assert_eq!(count, Count { requests: 0, charges: 100_000 });
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

//! Bytes of a RESP connection: parsed at any split, and answered one by one.

use std::cell::LazyCell;
use std::sync::Arc;

use bytes::BytesMut;

use super::Fixture;
use crate::resp::parse::{Command, Parser, ProtocolError};
use crate::resp::session::Session;

thread_local! {
    static FIXTURE: LazyCell<Fixture> = LazyCell::new(Fixture::new);
}

/// How errors begin that are failures of the server.
const FAILURES: [&[u8]; 3] = [b"-UNAVAILABLE", b"-BUSY", b"-FULL"];

/// The first byte is the size of the pieces in which the rest arrives.
///
/// # Panics
/// When pieces make other commands than the whole, or a command is not answered by exactly one
/// reply, or a reply is a failure of the server.
pub fn resp(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (commands, error) = cut(rest, rest.len().max(1));
    let in_pieces = cut(rest, usize::from(*first).max(1));
    assert_eq!((&commands, error.is_some()), (&in_pieces.0, in_pieces.1.is_some()));
    FIXTURE.with(|fixture| {
        let mut session = Session::new(Arc::clone(&fixture.app), Arc::clone(&fixture.client));
        let mut output = Vec::new();
        let proceed = fixture.run(session.run(&commands, &mut output));
        let mut replies = 0;
        let mut rest = output.as_slice();
        while !rest.is_empty() {
            let failed = FAILURES.iter().any(|failure| rest.starts_with(failure));
            assert!(!failed, "{:?}", String::from_utf8_lossy(rest));
            let after = reply(rest);
            assert!(after.is_some(), "no reply: {:?}", String::from_utf8_lossy(rest));
            rest = after.unwrap_or_default();
            replies += 1;
        }
        let expected = commands.len();
        assert!(
            if proceed { replies == expected } else { replies <= expected },
            "{replies} replies"
        );
    });
}

/// All commands of bytes that arrive in pieces of this size.
fn cut(bytes: &[u8], size: usize) -> (Vec<Command>, Option<ProtocolError>) {
    let (mut input, mut commands) = (BytesMut::new(), Vec::new());
    let mut parser = Parser::default();
    for piece in bytes.chunks(size) {
        input.extend_from_slice(piece);
        loop {
            match parser.next(&mut input) {
                Ok(Some(command)) => commands.push(command),
                Ok(None) => break,
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

/// The bytes after the first reply, if there is one.
fn reply(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = (bytes.get(1..end)?, bytes.get(end + 2..)?);
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let elements = |count: i64, after| (0..count).try_fold(after, |rest, _| reply(rest));
    match bytes.first()? {
        b'+' | b'-' => std::str::from_utf8(line).ok().map(|_| after),
        b':' => number().map(|_| after),
        b'_' => line.is_empty().then_some(after),
        b'#' => matches!(line, b"t" | b"f").then_some(after),
        b'*' => elements(number()?, after),
        b'%' => elements(2 * number()?, after),
        b'$' => match usize::try_from(number()?) {
            Ok(length) => after.get(length..)?.strip_prefix(b"\r\n"),
            Err(_) => Some(after),
        },
        _ => None,
    }
}

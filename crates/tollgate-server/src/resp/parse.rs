//! From bytes to commands: arrays of bulk strings, and inline commands. Commands are bounded: a
//! connection that exceeds a bound gets an error and is closed.

use bytes::{Buf, Bytes, BytesMut};

/// The most words in one command.
const WORDS_MAX: usize = 1_024;
/// The most bytes of one command.
const BYTES_MAX: usize = 64 * 1024;

/// A command: its name and its arguments.
pub(crate) type Command = Vec<Bytes>;

/// Bytes that are not RESP; the connection is closed.
pub(crate) type ProtocolError = &'static str;

/// Takes the next complete command from the input, if there is one.
pub(crate) fn next(input: &mut BytesMut) -> Result<Option<Command>, ProtocolError> {
    loop {
        let Some(first) = input.first() else { return Ok(None) };
        let (command, length) = if *first == b'*' {
            match array(input)? {
                Some(found) => found,
                None => return incomplete(input),
            }
        } else {
            match inline(input)? {
                Some(found) => found,
                None => return incomplete(input),
            }
        };
        input.advance(length);
        // Empty lines and empty arrays are no commands.
        if !command.is_empty() {
            return Ok(Some(command));
        }
    }
}

/// The command is incomplete, unless it is too long already.
fn incomplete(input: &BytesMut) -> Result<Option<Command>, ProtocolError> {
    if input.len() > BYTES_MAX {
        return Err("too big a command");
    }
    Ok(None)
}

/// The words of an array, and its length in bytes.
fn array(input: &[u8]) -> Result<Option<(Command, usize)>, ProtocolError> {
    let Some((count, mut at)) = number(input, 1, "invalid multibulk length")? else {
        return Ok(None);
    };
    let count = usize::try_from(count).unwrap_or(0);
    if count > WORDS_MAX {
        return Err("invalid multibulk length");
    }
    let mut words = Vec::with_capacity(count.min(8));
    for _ in 0..count {
        match input.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(_) => return Err("expected '$'"),
        }
        let Some((length, start)) = number(input, at + 1, "invalid bulk length")? else {
            return Ok(None);
        };
        let length = usize::try_from(length).map_err(|_| "invalid bulk length")?;
        if length > BYTES_MAX {
            return Err("invalid bulk length");
        }
        let end = start + length;
        let (Some(word), Some(ending)) = (input.get(start..end), input.get(end..end + 2)) else {
            return Ok(None);
        };
        if ending != b"\r\n" {
            return Err("a bulk string must end with CRLF");
        }
        words.push(Bytes::copy_from_slice(word));
        at = end + 2;
        if at > BYTES_MAX {
            return Err("too big a command");
        }
    }
    Ok(Some((words, at)))
}

/// A number that ends with CRLF, and where the rest begins.
fn number(
    input: &[u8],
    from: usize,
    error: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let rest = input.get(from..).unwrap_or_default();
    let Some(length) = rest.iter().take(32).position(|byte| *byte == b'\r') else {
        return if rest.len() >= 32 { Err(error) } else { Ok(None) };
    };
    match rest.get(length + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(error),
    }
    let text = rest.get(..length).and_then(|digits| std::str::from_utf8(digits).ok());
    let value = text.and_then(|text| text.parse().ok()).ok_or(error)?;
    Ok(Some((value, from + length + 2)))
}

/// The words of a line, and its length in bytes.
fn inline(input: &[u8]) -> Result<Option<(Command, usize)>, ProtocolError> {
    let Some(length) = input.iter().take(BYTES_MAX).position(|byte| *byte == b'\n') else {
        return if input.len() >= BYTES_MAX { Err("too big inline request") } else { Ok(None) };
    };
    let line = input.get(..length).unwrap_or_default();
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let words: Command = words.map(Bytes::copy_from_slice).collect();
    if words.len() > WORDS_MAX {
        return Err("too big inline request");
    }
    Ok(Some((words, length + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8], chunk: usize) -> Result<Vec<Vec<String>>, ProtocolError> {
        let (mut input, mut commands) = (BytesMut::new(), Vec::new());
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(chunk.min(bytes.len()));
            input.extend_from_slice(now);
            bytes = later;
            while let Some(command) = next(&mut input)? {
                let text = |word: &Bytes| String::from_utf8_lossy(word).into_owned();
                commands.push(command.iter().map(text).collect());
            }
        }
        Ok(commands)
    }

    #[test]
    fn commands_are_parsed_at_every_split() {
        let bytes = b"*2\r\n$4\r\nPING\r\n$3\r\na\r\n\r\n\r\nPING  b\r\n*0\r\n*1\r\n$0\r\n\r\n";
        for chunk in 1..=bytes.len() {
            let commands = all(bytes, chunk).unwrap();
            assert_eq!(commands, [vec!["PING", "a\r\n"], vec!["PING", "b"], vec![""]], "{chunk}");
        }
    }

    #[test]
    fn bytes_that_are_not_resp_are_refused() {
        let long = [b"*1\r\n$65537\r\n".as_slice(), &[b'a'; 65_538]].concat();
        let endless = [b'a'; BYTES_MAX + 1];
        let invalid: [&[u8]; 7] = [
            b"*x\r\n",
            b"*99999\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$1\r\nabc",
            &long,
            &endless,
        ];
        for bytes in invalid {
            assert!(
                all(bytes, 7).is_err(),
                "{}",
                String::from_utf8_lossy(&bytes[..20.min(bytes.len())])
            );
        }
    }
}

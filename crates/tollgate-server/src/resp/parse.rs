//! From bytes to commands: arrays of bulk strings, and inline commands. Commands are bounded: a
//! connection that exceeds a bound gets an error and is closed.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// The most words in one command.
const WORDS_MAX: usize = 1_024;
/// The most bytes of one command.
const BYTES_MAX: usize = 64 * 1024;

/// A command: its name and its arguments.
pub(crate) type Command = Vec<Bytes>;

/// Bytes that are not RESP; the connection is closed.
pub(crate) type ProtocolError = &'static str;

/// Takes commands from an input that arrives in pieces. What it has read of an incomplete command
/// is not read again: pieces of a byte must not cost more than their number.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// The number of words of the array, once it is known.
    count: Option<usize>,
    /// Where the words begin and end that are complete.
    words: Vec<Range<usize>>,
    /// Up to where the command was read.
    at: usize,
}

impl Parser {
    /// Whether nothing of an incomplete command was read.
    pub(super) const fn is_idle(&self) -> bool {
        self.at == 0
    }

    /// Takes the next complete command from the input, if there is one.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Command>, ProtocolError> {
        loop {
            let Some(first) = input.first() else { return Ok(None) };
            let is_complete = if *first == b'*' { self.array(input)? } else { self.inline(input)? };
            if !is_complete {
                let is_long = input.len() > BYTES_MAX;
                return if is_long { Err("too big a command") } else { Ok(None) };
            }
            let Self { words, at, .. } = std::mem::take(self);
            let bytes = input.split_to(at).freeze();
            // Empty lines and empty arrays are no commands.
            if !words.is_empty() {
                return Ok(Some(words.into_iter().map(|word| bytes.slice(word)).collect()));
            }
        }
    }

    /// Reads more of an array; whether it is complete.
    fn array(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let count = match self.count {
            Some(count) => count,
            None => {
                let Some((count, start)) = number(input, 1, "invalid multibulk length")? else {
                    return Ok(false);
                };
                let count = usize::try_from(count).unwrap_or(0);
                if count > WORDS_MAX {
                    return Err("invalid multibulk length");
                }
                (self.count, self.at) = (Some(count), start);
                count
            }
        };
        while self.words.len() < count {
            match input.get(self.at) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(_) => return Err("expected '$'"),
            }
            let Some((length, start)) = number(input, self.at + 1, "invalid bulk length")? else {
                return Ok(false);
            };
            let length = usize::try_from(length).map_err(|_| "invalid bulk length")?;
            if length > BYTES_MAX {
                return Err("invalid bulk length");
            }
            let end = start + length;
            let Some(ending) = input.get(end..end + 2) else { return Ok(false) };
            if ending != b"\r\n" {
                return Err("a bulk string must end with CRLF");
            }
            self.words.push(start..end);
            self.at = end + 2;
            if self.at > BYTES_MAX {
                return Err("too big a command");
            }
        }
        Ok(true)
    }

    /// Reads more of a line; whether it is complete.
    fn inline(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let line = input.get(..BYTES_MAX).unwrap_or(input);
        let unread = line.get(self.at..).unwrap_or_default();
        let Some(end) = unread.iter().position(|byte| *byte == b'\n') else {
            self.at = line.len();
            return if line.len() < BYTES_MAX { Ok(false) } else { Err("too big inline request") };
        };
        let end = self.at + end;
        let line = line.get(..end).unwrap_or_default();
        let mut start = 0;
        for word in line.split(u8::is_ascii_whitespace) {
            if !word.is_empty() {
                self.words.push(start..start + word.len());
            }
            start += word.len() + 1;
        }
        if self.words.len() > WORDS_MAX {
            return Err("too big inline request");
        }
        self.at = end + 1;
        Ok(true)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8], chunk: usize) -> Result<Vec<Vec<String>>, ProtocolError> {
        let (mut input, mut commands) = (BytesMut::new(), Vec::new());
        let mut parser = Parser::default();
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(chunk.min(bytes.len()));
            input.extend_from_slice(now);
            bytes = later;
            while let Some(command) = parser.next(&mut input)? {
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

    #[test]
    fn what_was_read_of_an_incomplete_command_is_not_read_again() {
        let bytes = [b"*2\r\n$4\r\nPING\r\n$9\r\na".as_slice(), b"PING lon"];
        for (bytes, words, at) in [(bytes[0], 1, 14), (bytes[1], 0, 8)] {
            let (mut parser, mut input) = (Parser::default(), BytesMut::new());
            for byte in bytes {
                input.extend_from_slice(&[*byte]);
                assert_eq!(parser.next(&mut input).unwrap(), None);
            }
            assert_eq!((parser.words.len(), parser.at), (words, at));
        }
    }
}

//! From bytes to commands: arrays of bulk strings, and commands typed on one line. Bounded: whoever
//! sends more than a command may hold is told so and disconnected.

use bytes::{Buf, Bytes, BytesMut};

/// Words in one command.
const WORDS_MAX: usize = 1_024;
/// Bytes of one command.
const BYTES_MAX: usize = 64 * 1024;

/// A command: its name and its arguments.
pub(crate) type Command = Vec<Bytes>;

/// Why a connection cannot go on: what it sends is not this protocol.
pub(crate) type Broken = &'static str;

/// Takes the next whole command from the input; none if more must come first.
pub(crate) fn next(input: &mut BytesMut) -> Result<Option<Command>, Broken> {
    loop {
        let Some(first) = input.first() else { return Ok(None) };
        let (command, length) = if *first == b'*' {
            match array(input)? {
                Some(found) => found,
                None => return wait(input),
            }
        } else {
            match inline(input)? {
                Some(found) => found,
                None => return wait(input),
            }
        };
        input.advance(length);
        // Empty lines and empty arrays ask for nothing.
        if !command.is_empty() {
            return Ok(Some(command));
        }
    }
}

/// More must come, unless too much has come already.
fn wait(input: &BytesMut) -> Result<Option<Command>, Broken> {
    if input.len() > BYTES_MAX {
        return Err("too big a command");
    }
    Ok(None)
}

/// The words of an array, and how many bytes it takes.
fn array(input: &[u8]) -> Result<Option<(Command, usize)>, Broken> {
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
fn number(input: &[u8], from: usize, wrong: Broken) -> Result<Option<(i64, usize)>, Broken> {
    let rest = input.get(from..).unwrap_or_default();
    let Some(length) = rest.iter().take(32).position(|byte| *byte == b'\r') else {
        return if rest.len() >= 32 { Err(wrong) } else { Ok(None) };
    };
    match rest.get(length + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(wrong),
    }
    let text = rest.get(..length).and_then(|digits| std::str::from_utf8(digits).ok());
    let value = text.and_then(|text| text.parse().ok()).ok_or(wrong)?;
    Ok(Some((value, from + length + 2)))
}

/// The words of a line, and how many bytes it takes.
fn inline(input: &[u8]) -> Result<Option<(Command, usize)>, Broken> {
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

    fn all(mut bytes: &[u8], chunk: usize) -> Result<Vec<Vec<String>>, Broken> {
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
    fn commands_are_found_however_they_arrive() {
        let bytes = b"*2\r\n$4\r\nPING\r\n$3\r\na\r\n\r\n\r\nPING  b\r\n*0\r\n*1\r\n$0\r\n\r\n";
        for chunk in 1..=bytes.len() {
            let commands = all(bytes, chunk).unwrap();
            assert_eq!(commands, [vec!["PING", "a\r\n"], vec!["PING", "b"], vec![""]], "{chunk}");
        }
    }

    #[test]
    fn what_is_not_this_protocol_is_refused() {
        let long = [b"*1\r\n$65537\r\n".as_slice(), &[b'a'; 65_538]].concat();
        let endless = [b'a'; BYTES_MAX + 1];
        let wrong: [&[u8]; 7] = [
            b"*x\r\n",
            b"*99999\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$1\r\nabc",
            &long,
            &endless,
        ];
        for bytes in wrong {
            assert!(
                all(bytes, 7).is_err(),
                "{}",
                String::from_utf8_lossy(&bytes[..20.min(bytes.len())])
            );
        }
    }
}

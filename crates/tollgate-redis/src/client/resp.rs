//! The wire format, version 2: bytes become replies.
//!
//! The parser takes bytes as they come and never looks at one twice, apart from a line or a text
//! that has not arrived in full. What a server can make it hold is bounded, and no bytes make it
//! panic: after the first that it does not understand, it refuses all.

use tollgate_core::{Code, Error, Result};

use crate::transport::Reply;

/// Lists in lists. `CLUSTER SLOTS` needs four.
const DEPTH_MAX: usize = 16;
/// A status, an error or a number.
const LINE_MAX: usize = 64 * 1024;
/// All texts of one reply together.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// All elements of one reply together.
const ELEMENTS_MAX: usize = 1024 * 1024;
/// What a list may reserve on the word of its head alone.
const RESERVE_MAX: usize = 64;

/// Makes replies of the bytes of one connection.
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    /// How many of the bytes have been used.
    used: usize,
    /// Lists that are not complete, the outermost first.
    lists: Vec<Partial>,
    /// What the reply under way holds so far.
    text_bytes: usize,
    elements: usize,
    is_broken: bool,
}

/// A list and how many elements are still to come.
#[derive(Debug)]
struct Partial {
    elements: Vec<Reply>,
    missing: usize,
}

/// What one step over the bytes found.
enum Parsed {
    /// A reply that holds no others.
    Leaf(Reply),
    /// The head of a list that is not empty.
    List(usize),
    /// Bytes are missing.
    Nothing,
}

impl Parser {
    /// Takes bytes in.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.used == self.bytes.len() {
            self.bytes.clear();
            self.used = 0;
        } else if self.used > self.bytes.len() / 2 {
            self.bytes.drain(..self.used);
            self.used = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether nothing of a reply has arrived that was not handed out.
    pub(super) fn is_idle(&self) -> bool {
        self.used == self.bytes.len() && self.lists.is_empty() && !self.is_broken
    }

    /// The next complete reply.
    ///
    /// # Errors
    /// When the bytes are no reply, or one that is absurdly large. From then on always.
    pub(super) fn reply(&mut self) -> Result<Option<Reply>> {
        if self.is_broken {
            return Err(broken("no reply can follow what was not understood"));
        }
        let reply = self.advance();
        self.is_broken = reply.is_err();
        reply
    }

    fn advance(&mut self) -> Result<Option<Reply>> {
        loop {
            let leaf = match self.step()? {
                Parsed::Nothing => return Ok(None),
                Parsed::List(missing) => {
                    let elements = Vec::with_capacity(missing.min(RESERVE_MAX));
                    self.lists.push(Partial { elements, missing });
                    continue;
                }
                Parsed::Leaf(leaf) => leaf,
            };
            if let Some(reply) = self.place(leaf) {
                (self.text_bytes, self.elements) = (0, 0);
                return Ok(Some(reply));
            }
        }
    }

    /// Puts a reply into the list that waits for it, and that list into its own once it is
    /// complete.
    fn place(&mut self, mut reply: Reply) -> Option<Reply> {
        while let Some(list) = self.lists.last_mut() {
            list.elements.push(reply);
            list.missing -= 1;
            if list.missing > 0 {
                return None;
            }
            let elements = self.lists.pop().map(|list| list.elements);
            reply = Reply::List(elements.unwrap_or_default());
        }
        Some(reply)
    }

    fn step(&mut self) -> Result<Parsed> {
        let rest = self.bytes.get(self.used..).unwrap_or_default();
        let Some((line, after)) = line(rest)? else { return Ok(Parsed::Nothing) };
        let Some((kind, body)) = line.split_first() else { return Err(broken("an empty line")) };
        let found = match kind {
            b'+' | b'-' if body.len() > BYTES_MAX - self.text_bytes => {
                return Err(broken("an absurd length"));
            }
            b'+' => Parsed::Leaf(Reply::Text(body.to_vec())),
            b'-' => Parsed::Leaf(Reply::Error(String::from_utf8_lossy(body).into_owned())),
            b':' => Parsed::Leaf(Reply::Integer(integer(body)?)),
            b'$' => match length(body, BYTES_MAX - self.text_bytes)? {
                None => Parsed::Leaf(Reply::Nil),
                Some(length) => return Ok(self.text(after, length)?.unwrap_or(Parsed::Nothing)),
            },
            b'*' => match length(body, ELEMENTS_MAX - self.elements)? {
                None => Parsed::Leaf(Reply::Nil),
                Some(0) => Parsed::Leaf(Reply::List(Vec::new())),
                Some(_) if self.lists.len() == DEPTH_MAX => return Err(broken("deep nesting")),
                Some(count) => {
                    self.elements += count;
                    Parsed::List(count)
                }
            },
            _ => return Err(broken("an unknown kind of reply")),
        };
        if let Parsed::Leaf(Reply::Text(_) | Reply::Error(_)) = found {
            self.text_bytes += body.len();
        }
        self.used += after;
        Ok(found)
    }

    /// A text whose head ends at `after`, if all of it has arrived.
    fn text(&mut self, after: usize, length: usize) -> Result<Option<Parsed>> {
        let start = self.used + after;
        let Some(end) = self.bytes.get(start + length..start + length + 2) else {
            return Ok(None);
        };
        if end != b"\r\n" {
            return Err(broken("a text of another length than announced"));
        }
        let text = self.bytes.get(start..start + length).unwrap_or_default().to_vec();
        self.text_bytes += length;
        self.used = start + length + 2;
        Ok(Some(Parsed::Leaf(Reply::Text(text))))
    }
}

/// The first line, and where the next one begins.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>> {
    match bytes.iter().take(LINE_MAX).position(|byte| *byte == b'\n') {
        Some(end) => match bytes.get(..end).and_then(|line| line.strip_suffix(b"\r")) {
            Some(line) => Ok(Some((line, end + 1))),
            None => Err(broken("a line without its end")),
        },
        None if bytes.len() >= LINE_MAX => Err(broken("an endless line")),
        None => Ok(None),
    }
}

fn integer(body: &[u8]) -> Result<i64> {
    let number = core::str::from_utf8(body).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| broken("a number that is none"))
}

/// A length up to `max`; -1 stands for nothing at all.
fn length(body: &[u8], max: usize) -> Result<Option<usize>> {
    match integer(body)? {
        -1 => Ok(None),
        number => match usize::try_from(number) {
            Ok(length) if length <= max => Ok(Some(length)),
            _ => Err(broken("an absurd length")),
        },
    }
}

fn broken(what: &str) -> Error {
    Error::new(Code::StoreUnavailable, format!("what Redis sent is not its protocol: {what}"))
}

#[cfg(test)]
mod tests {
    use tollgate_testkit::rng::Rng;

    use super::*;
    use crate::encode::head;

    fn parse(chunks: &[&[u8]]) -> Result<Vec<Reply>> {
        let mut parser = Parser::default();
        let mut replies = Vec::new();
        for chunk in chunks {
            parser.feed(chunk);
            while let Some(reply) = parser.reply()? {
                replies.push(reply);
            }
        }
        Ok(replies)
    }

    /// Lists in lists of a random reply.
    const DEPTH: usize = 3;

    fn number(rng: &mut Rng) -> i64 {
        i64::from_ne_bytes(rng.next_u64().to_ne_bytes()) >> rng.below(64)
    }

    fn random_reply(rng: &mut Rng, depth: usize) -> Reply {
        let text = |rng: &mut Rng| {
            let length = rng.below(12);
            (0..length).map(|_| u8::try_from(rng.below(256)).unwrap()).collect::<Vec<u8>>()
        };
        match rng.below(if depth == 0 { 4 } else { 6 }) {
            0 => Reply::Nil,
            1 => Reply::Integer(number(rng)),
            2 => Reply::Text(text(rng)),
            3 => Reply::Error(format!("ERR {}", rng.below(1_000))),
            _ => {
                let count = rng.below(5);
                Reply::List((0..count).map(|_| random_reply(rng, depth - 1)).collect())
            }
        }
    }

    fn write(out: &mut Vec<u8>, reply: &Reply) {
        match reply {
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::Integer(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
            Reply::Text(text) => {
                head(out, b'$', text.len());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Reply::Error(text) => out.extend_from_slice(format!("-{text}\r\n").as_bytes()),
            Reply::List(elements) => {
                head(out, b'*', elements.len());
                elements.iter().for_each(|element| write(out, element));
            }
        }
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        let bytes = b"+OK\r\n-ERR no\r\n:-7\r\n$2\r\na\n\r\n$-1\r\n*-1\r\n*0\r\n*2\r\n*1\r\n\
            :1\r\n$0\r\n\r\n";
        let expected = [
            Reply::Text(b"OK".to_vec()),
            Reply::Error("ERR no".to_owned()),
            Reply::Integer(-7),
            Reply::Text(b"a\n".to_vec()),
            Reply::Nil,
            Reply::Nil,
            Reply::List(vec![]),
            Reply::List(vec![Reply::List(vec![Reply::Integer(1)]), Reply::Text(vec![])]),
        ];
        assert_eq!(parse(&[bytes]).unwrap(), expected);
    }

    #[test]
    fn replies_are_the_same_wherever_the_bytes_are_split() {
        let seed = 0x5e9_a11;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        for _ in 0..200 {
            let replies: Vec<_> = (0..3).map(|_| random_reply(&mut rng, DEPTH)).collect();
            let mut bytes = Vec::new();
            replies.iter().for_each(|reply| write(&mut bytes, reply));
            for split in 0..=bytes.len() {
                let (left, right) = bytes.split_at(split);
                assert_eq!(parse(&[left, right]).unwrap(), replies, "split at {split}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(parse(&single).unwrap(), replies);
        }
    }

    #[test]
    fn garbage_is_refused_or_read_and_never_panics() {
        let seed = 0xbad_b17e5;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let alphabet = b"+-:$*0123456789\r\n\r\n\xff";
        let mut refused = 0;
        for _ in 0..100_000 {
            let length = rng.below(24);
            let pick =
                |rng: &mut Rng| alphabet[usize::try_from(rng.below(20)).unwrap() % alphabet.len()];
            let bytes: Vec<u8> = (0..length).map(|_| pick(&mut rng)).collect();
            refused += usize::from(parse(&[&bytes]).is_err());
        }
        assert!(refused > 10_000, "only {refused} of 100,000 were refused");
    }

    #[test]
    fn absurd_sizes_are_refused_before_anything_is_held() {
        let deep = b"*1\r\n".repeat(DEPTH_MAX + 1);
        let long = vec![b'+'; LINE_MAX];
        let many = [b"*1048576\r\n*1\r\n".to_vec(), deep, long, b"$67108865\r\n".to_vec()];
        for bytes in many {
            assert!(parse(&[&bytes]).is_err());
        }
        for text in
            ["$-2\r\n", "*99999999999999999999\r\n", ":1x\r\n", "$1\r\nab\r\n", "\r\n", "a\n"]
        {
            assert!(parse(&[text.as_bytes()]).is_err(), "{text:?}");
        }
    }

    #[test]
    fn nothing_is_read_after_what_was_not_understood() {
        let mut parser = Parser::default();
        parser.feed(b"?\r\n+OK\r\n");
        assert!(parser.reply().is_err());
        assert!(parser.reply().is_err());
        assert!(!parser.is_idle());
    }
}

//! Commands on the wire: a list of words, each with its length in front.

const END: &[u8] = b"\r\n";

/// Appends a word.
pub(crate) fn word(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(END);
}

/// Appends the head of a word, or of all words of a command: its kind and a length.
pub(crate) fn head(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    out.extend_from_slice(END);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_the_protocol_says() {
        let mut out = Vec::new();
        head(&mut out, b'*', 3);
        assert_eq!(out, b"*3\r\n");
        for length in [0, 1, 9, 10, 11, 99, 100, 12_345] {
            let bytes = vec![b'\n'; length];
            let mut out = Vec::new();
            word(&mut out, &bytes);
            let expected = [format!("${length}\r\n").as_bytes(), &bytes, b"\r\n"].concat();
            assert_eq!(out, expected);
        }
    }
}

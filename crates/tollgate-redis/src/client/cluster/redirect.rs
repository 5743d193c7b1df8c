//! Redirects: another node has to run the call. This one has not run it.

use crate::client::host::Host;

/// Where a call has to go instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another node serves the slot for good.
    Moved { slot: u16, host: Host },
    /// The slot is being moved to another node, and the key is there already.
    Ask { host: Host },
}

impl Redirect {
    /// Reads an error reply of the node at `asked`.
    pub(super) fn of(text: &str, asked: Option<&Host>) -> Option<Self> {
        let mut words = text.split(' ');
        match words.next()? {
            "MOVED" => {
                let slot = words.next()?.parse().ok()?;
                Some(Self::Moved { slot, host: host(words.next()?, asked)? })
            }
            "ASK" => Some(Self::Ask { host: host(words.nth(1)?, asked)? }),
            _ => None,
        }
    }
}

/// `name:port`, where the name may be an IPv6 address without brackets, or absent: then it is that
/// of the node that was asked.
fn host(text: &str, asked: Option<&Host>) -> Option<Host> {
    let (name, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    match name {
        "" | "?" => asked.map(|asked| Host::new(asked.name(), port)),
        name => Some(Host::new(name, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_read() {
        let of = |text| Redirect::of(text, Some(&Host::new("asked", 1)));
        let moved = |host| Some(Redirect::Moved { slot: 7, host });
        assert_eq!(of("MOVED 7 10.0.0.1:80"), moved(Host::new("10.0.0.1", 80)));
        assert_eq!(of("MOVED 7 ::1:80"), moved(Host::new("::1", 80)));
        assert_eq!(of("MOVED 7 :80"), moved(Host::new("asked", 80)));
        assert_eq!(of("ASK 7 ?:80"), Some(Redirect::Ask { host: Host::new("asked", 80) }));
        for text in ["", "MOVED", "MOVED x a:1", "MOVED 7 a", "MOVED 7 a:0", "ASK 7", "ERR MOVED"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(of("TRYAGAIN Multiple keys"), None);
    }
}

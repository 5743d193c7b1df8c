//! What a node says when it does not run a call itself. None of these calls has run.

use crate::client::host::Host;
use crate::transport::Reply;

/// Where a call has to go instead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another node serves the slot for good.
    Moved { slot: u16, host: Host },
    /// The slot is on its way to another node, and the key has gone there already.
    Ask { host: Host },
    /// Of several keys, some have gone already.
    TryAgain,
    /// The cluster cannot serve now.
    Down,
    /// A key that another node should serve was not refused.
    Unrefused,
}

impl Redirect {
    /// Reads a reply of the node at `asked`.
    pub(super) fn of(reply: &Reply, asked: Option<&Host>) -> Option<Self> {
        let Reply::Error(text) = reply else { return None };
        let mut words = text.split(' ');
        match words.next()? {
            "MOVED" => {
                let slot = words.next()?.parse().ok()?;
                Some(Self::Moved { slot, host: host(words.next()?, asked)? })
            }
            "ASK" => Some(Self::Ask { host: host(words.nth(1)?, asked)? }),
            "TRYAGAIN" => Some(Self::TryAgain),
            "FOREIGN" => Some(Self::Unrefused),
            "CLUSTERDOWN" | "READONLY" | "MASTERDOWN" | "LOADING" => Some(Self::Down),
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

    fn of(text: &str) -> Option<Redirect> {
        Redirect::of(&Reply::Error(text.to_owned()), Some(&Host::new("asked", 1)))
    }

    #[test]
    fn redirects_are_read() {
        let moved = |host| Some(Redirect::Moved { slot: 7, host });
        assert_eq!(of("MOVED 7 10.0.0.1:80"), moved(Host::new("10.0.0.1", 80)));
        assert_eq!(of("MOVED 7 ::1:80"), moved(Host::new("::1", 80)));
        assert_eq!(of("MOVED 7 :80"), moved(Host::new("asked", 80)));
        assert_eq!(of("ASK 7 ?:80"), Some(Redirect::Ask { host: Host::new("asked", 80) }));
        assert_eq!(of("TRYAGAIN Multiple keys"), Some(Redirect::TryAgain));
        assert_eq!(of("FOREIGN keys"), Some(Redirect::Unrefused));
        assert_eq!(of("CLUSTERDOWN Hash slot not served"), Some(Redirect::Down));
        for text in ["", "MOVED", "MOVED x a:1", "MOVED 7 a", "MOVED 7 a:0", "ASK 7", "ERR MOVED"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(Redirect::of(&Reply::Text(b"TRYAGAIN".to_vec()), None), None);
    }
}

//! Values of settings that only a server has. Each error names what is accepted.

use std::net::SocketAddr;

use tollgate::limiter::Share;
use tollgate_service::config::values::{shorten, whole};

/// An address and a port, or `off`.
pub(super) fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    let accepted = "accepted: an address with a port such as 127.0.0.1:8080, or off";
    text.parse().map(Some).map_err(|_| format!("{:?} is no address; {accepted}", shorten(text)))
}

/// A number of things in memory.
pub(super) fn count(text: &str) -> Result<usize, String> {
    whole(text).and_then(|number| usize::try_from(number).map_err(|error| error.to_string()))
}

/// A share such as `1/3`, or `1`.
pub(super) fn share(text: &str) -> Result<Share, String> {
    let wrong =
        || format!("{:?} is no share; accepted: 1, or a fraction such as 1/3", shorten(text));
    let (part, of) = text.split_once('/').unwrap_or((text, "1"));
    let share = whole(part).and_then(|part| whole(of).map(|of| Share::new(part, of)));
    share.ok().and_then(Result::ok).ok_or_else(wrong)
}

//! Values of settings that only a server has. Each error says what is wrong and what to write
//! instead.

use std::net::SocketAddr;

use tollgate::limiter::Share;
use tollgate_service::config::values::{shorten, whole};

/// An address and a port, or `off`.
pub(super) fn address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        let port = text.rsplit_once(':').map_or(text, |(_, port)| port);
        let port = port.parse::<u16>().unwrap_or(8080);
        let text = shorten(text);
        format!("{text:?} is not an IP address with a port; write such as 127.0.0.1:{port}, or off")
    })
}

/// A number of things in memory.
pub(super) fn count(text: &str) -> Result<usize, String> {
    whole(text).and_then(|number| usize::try_from(number).map_err(|error| error.to_string()))
}

/// Names of hosts, without a port, separated by commas.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let is_name = |name: &str| {
        name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter))
    };
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    match names.clone().find(|name| !is_name(name)) {
        None => Ok(names.map(str::to_owned).collect()),
        Some(wrong) => Err(format!(
            "{:?} is not a host; write names or addresses without a port, separated by commas",
            shorten(wrong)
        )),
    }
}

/// A share such as `1/3`, or `1`.
pub(super) fn share(text: &str) -> Result<Share, String> {
    let wrong =
        || format!("{:?} is not a share; write 1, or a fraction such as 1/3", shorten(text));
    parts(text).and_then(|(part, of)| Share::new(part, of).ok()).ok_or_else(wrong)
}

/// A share that may be 0, such as `1`, `0` or `1/100`.
pub(super) fn fraction(text: &str) -> Result<(u64, u64), String> {
    let instead = "write 0, 1, or a fraction such as 1/100";
    let wrong = || format!("{:?} is not a share; {instead}", shorten(text));
    parts(text).filter(|(part, of)| part <= of && *of > 0).ok_or_else(wrong)
}

/// Numerator and denominator.
fn parts(text: &str) -> Option<(u64, u64)> {
    let (part, of) = text.split_once('/').unwrap_or((text, "1"));
    Some((whole(part).ok()?, whole(of).ok()?))
}

//! Parses the URL of a database, and resolves the URLs that the protocol returns.

use tollgate_core::text::percent_decoded;
use tollgate_core::{Error, Result};

const SCHEMES: [(&str, &str); 2] = [("denokv+http://", "http://"), ("denokv+https://", "https://")];

/// A parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The http or https URL of the database, without the token.
    pub(crate) url: String,
    pub(crate) token: Option<String>,
    /// A file of certificate authorities.
    pub(crate) ca: Option<String>,
}

/// Parses `denokv+https://token@host/path?…` up to its parameters, which are returned.
///
/// # Errors
/// `config_invalid` naming `url`. The message never contains the URL.
pub(crate) fn parse(address: &str) -> Result<(Address, &str)> {
    let known =
        SCHEMES.iter().find_map(|(scheme, http)| Some((address.strip_prefix(scheme)?, http)));
    let (rest, http) = known.ok_or_else(|| {
        let message = "has another scheme; accepted: denokv+http://host, denokv+https://host";
        Error::config("url", message)
    })?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(u, h)| (Some(u), h));
    if host.is_empty() {
        return Err(Error::config("url", "has no host; accepted: denokv+https://host"));
    }
    let token = match user.map(|user| user.split_once(':').map_or(user, |(_, token)| token)) {
        None | Some("") => None,
        Some(token) => Some(decoded(token)?),
    };
    let path = if path.is_empty() { "/" } else { path };
    Ok((Address { url: format!("{http}{host}{path}"), token, ca: None }, query))
}

/// Resolves a reference against a base: an absolute URL, an absolute path or a relative path.
pub(crate) fn resolve(base: &str, reference: &str) -> String {
    if reference.contains("://") {
        return reference.to_owned();
    }
    let (scheme, rest) = base.split_once("://").unwrap_or(("http", base));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if let Some(host) = reference.strip_prefix("//") {
        return format!("{scheme}://{host}");
    }
    if reference.starts_with('/') {
        return format!("{scheme}://{host}{reference}");
    }
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{scheme}://{host}{folder}/{reference}")
}

fn decoded(text: &str) -> Result<String> {
    percent_decoded(text).ok_or_else(|| Error::config("url", "is not percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        for (address, url, token) in [
            ("denokv+http://h", "http://h/", None),
            ("denokv+https://h:4512/db?ca=/a%20b", "https://h:4512/db", None),
            ("denokv+http://t%40k@h", "http://h/", Some("t@k")),
            ("denokv+http://:tok@[::1]:80/", "http://[::1]:80/", Some("tok")),
            ("denokv+http://user:tok@h", "http://h/", Some("tok")),
            ("denokv+http://@h", "http://h/", None),
        ] {
            let (parsed, _) = parse(address).unwrap_or_else(|error| panic!("{address}: {error}"));
            assert_eq!((parsed.url.as_str(), parsed.token.as_deref()), (url, token), "{address}");
        }
        assert_eq!(parse("denokv+https://h?ca=%2Fx").unwrap().1, "ca=%2Fx");
    }

    #[test]
    fn invalid_urls_are_refused_without_being_shown() {
        for address in [
            "http://secret@h",
            "denokv+http://",
            "denokv+http://secret@",
            "denokv+http://secret%@h",
            "denokv+http://secret@h?x=1",
            "denokv+http://%FF@h",
        ] {
            let error = address.parse::<crate::Config>().map(|_| ()).unwrap_err();
            assert_eq!(error.field(), Some("url"), "{address}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn references_are_resolved() {
        for (base, reference, url) in [
            ("http://h:1/", "/v2", "http://h:1/v2"),
            ("http://h/a/b", "c", "http://h/a/c"),
            ("http://h", "c", "http://h/c"),
            ("https://h/a", "//i/b", "https://i/b"),
            ("http://h/a", "https://i/b", "https://i/b"),
        ] {
            assert_eq!(resolve(base, reference), url);
        }
    }
}

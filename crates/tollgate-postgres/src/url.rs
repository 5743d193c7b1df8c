//! The address of a server. What libpq accepts and the driver does not is translated here.

use tokio_postgres::config::SslMode;
use tollgate_core::{Error, Result};

const APPLICATION: &str = "tollgate";
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const SSL_MODES: &str = "disable, prefer, require, verify-ca, verify-full";

/// Where the server is and how to talk to it.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) driver: tokio_postgres::Config,
    /// A file of certificates to trust instead of those of the operating system.
    pub(crate) root_file: Option<String>,
}

/// Reads an address. Errors name the parameter and never repeat a value, which may be a secret.
pub(crate) fn parse(url: &str) -> Result<Address> {
    if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Error::config("url", "accepted: postgres://user:password@host:port/database"));
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut plain = base.to_owned();
    let mut root_file = None;
    let mut mode = None;
    let mut mark = '?';
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(ssl_mode(value)?),
            Some(("sslrootcert", file)) => root_file = Some(decoded(file)?),
            _ => {
                plain.push(mark);
                plain.push_str(pair);
                mark = '&';
            }
        }
    }
    let mut driver: tokio_postgres::Config = plain.parse().map_err(|error| {
        // The driver names the parameter at fault in its source, without the value.
        let reason = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        Error::config(
            "url",
            format!(
                "cannot be read ({reason}); accepted: postgres://user:password@host:port/database"
            ),
        )
    })?;
    if driver.get_hosts().is_empty() {
        return Err(Error::config("url", "names no host"));
    }
    if let Some(mode) = mode {
        driver.ssl_mode(mode);
    }
    if driver.get_application_name().is_none() {
        driver.application_name(APPLICATION);
    }
    Ok(Address { driver, root_file })
}

fn ssl_mode(mode: &str) -> Result<SslMode> {
    match mode {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" | "verify-ca" | "verify-full" => Ok(SslMode::Require),
        _ => Err(Error::config("sslmode", format!("accepted: {SSL_MODES}"))),
    }
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Result<String> {
    let odd = || Error::config("sslrootcert", "is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2).ok_or_else(odd)?;
        let digits = core::str::from_utf8(digits).map_err(|_| odd())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| odd())?);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| odd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libpq_accepts_is_accepted() {
        let address = parse(
            "postgres://me:s3cret@db:7/app?sslmode=verify-full&connect_timeout=1&sslrootcert=%2Fca.pem",
        );
        let Address { driver, root_file } = address.unwrap();
        assert_eq!(driver.get_ssl_mode(), SslMode::Require);
        assert_eq!(root_file.as_deref(), Some("/ca.pem"));
        assert_eq!(driver.get_ports(), [7]);
        assert_eq!(driver.get_dbname(), Some("app"));
        assert_eq!(driver.get_application_name(), Some("tollgate"));
        assert_eq!(parse("postgresql://db/app").unwrap().driver.get_ssl_mode(), SslMode::Prefer);
    }

    #[test]
    fn other_addresses_are_refused_by_name_and_never_repeated() {
        let odd = [
            ("s3cret", "url"),
            ("mysql://me:s3cret@db", "url"),
            ("postgres://me:s3cret@db:port/app", "url"),
            ("postgres://me:s3cret@db/app?nonsense=s3cret", "url"),
            ("postgres:///app", "url"),
            ("postgres://me:s3cret@db/app?sslmode=s3cret", "sslmode"),
            ("postgres://me:s3cret@db/app?sslrootcert=%zzs3cret", "sslrootcert"),
            ("postgres://me:s3cret@db/app?sslrootcert=%f", "sslrootcert"),
        ];
        for (url, field) in odd {
            let error = parse(url).map(|_| ()).unwrap_err();
            assert_eq!(error.field(), Some(field), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
    }
}

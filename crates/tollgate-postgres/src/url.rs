//! Parses the URL of a server. Parameters of libpq that the driver lacks are translated here.

use core::time::Duration;

use tokio_postgres::config::{Host, SslMode};
use tollgate_core::text::percent_decoded;
use tollgate_core::{Error, Result};

const APPLICATION: &str = "tollgate";
const PORT: u16 = 5432;
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const TIMEOUT_MAX_MS: u64 = 600_000;
const SSL_MODES: &str = "disable, prefer, require, verify-ca, verify-full";

/// A parsed URL. The driver omits the password in `Debug`.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) driver: tokio_postgres::Config,
    /// A file of certificate authorities that replace those of the operating system.
    pub(crate) root_file: Option<String>,
    /// How long one round trip may take.
    pub(crate) operation_timeout: Option<Duration>,
}

impl Address {
    /// The first server, for people.
    pub(crate) fn server(&self) -> String {
        let port = self.driver.get_ports().first().copied().unwrap_or(PORT);
        match self.driver.get_hosts().first() {
            Some(Host::Tcp(host)) => format!("{host}:{port}"),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "PostgreSQL".to_owned(),
        }
    }
}

/// Parses a URL. Errors name the parameter and never contain a value, which may be a secret.
pub(crate) fn parse(url: &str) -> Result<Address> {
    if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(Error::config("url", "accepted: postgres://user:password@host:port/database"));
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut driver_url = base.to_owned();
    let mut root_file = None;
    let mut operation_timeout = None;
    let mut mode = None;
    let mut separator = '?';
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(ssl_mode(value)?),
            Some(("sslrootcert", file)) => {
                let invalid = || Error::config("sslrootcert", "is not percent-encoded UTF-8");
                root_file = Some(percent_decoded(file).ok_or_else(invalid)?);
            }
            Some(("operation_timeout_ms", text)) => {
                operation_timeout = Some(Duration::from_millis(whole_ms(text)?));
            }
            _ => {
                driver_url.push(separator);
                driver_url.push_str(pair);
                separator = '&';
            }
        }
    }
    let mut driver: tokio_postgres::Config = driver_url.parse().map_err(|error| {
        // The source of the driver's error names the parameter, without its value.
        let reason = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        Error::config(
            "url",
            format!(
                "is not a PostgreSQL URL ({reason}); accepted: postgres://user:password@host:port/database"
            ),
        )
    })?;
    if driver.get_hosts().is_empty() {
        return Err(Error::config("url", "has no host"));
    }
    if let Some(mode) = mode {
        driver.ssl_mode(mode);
    }
    if driver.get_application_name().is_none() {
        driver.application_name(APPLICATION);
    }
    Ok(Address { driver, root_file, operation_timeout })
}

fn whole_ms(text: &str) -> Result<u64> {
    let ms = text.parse().ok().filter(|ms| (1..=TIMEOUT_MAX_MS).contains(ms));
    ms.ok_or_else(|| {
        Error::config("operation_timeout_ms", format!("accepted: 1 to {TIMEOUT_MAX_MS}"))
    })
}

fn ssl_mode(mode: &str) -> Result<SslMode> {
    match mode {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" | "verify-ca" | "verify-full" => Ok(SslMode::Require),
        _ => Err(Error::config("sslmode", format!("accepted: {SSL_MODES}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_libpq_are_accepted() {
        let address = parse(
            "postgres://me:s3cret@db:7/app?sslmode=verify-full&connect_timeout=1&sslrootcert=%2Fca.pem\
             &operation_timeout_ms=250",
        );
        let Address { driver, root_file, operation_timeout } = address.unwrap();
        assert_eq!(operation_timeout, Some(Duration::from_millis(250)));
        assert_eq!(driver.get_ssl_mode(), SslMode::Require);
        assert_eq!(root_file.as_deref(), Some("/ca.pem"));
        assert_eq!(driver.get_ports(), [7]);
        assert_eq!(driver.get_dbname(), Some("app"));
        assert_eq!(driver.get_application_name(), Some("tollgate"));
        assert_eq!(parse("postgresql://db/app").unwrap().driver.get_ssl_mode(), SslMode::Prefer);
    }

    #[test]
    fn errors_name_the_parameter_and_never_contain_its_value() {
        let invalid = [
            ("s3cret", "url"),
            ("mysql://me:s3cret@db", "url"),
            ("postgres://me:s3cret@db:port/app", "url"),
            ("postgres://me:s3cret@db/app?nonsense=s3cret", "url"),
            ("postgres:///app", "url"),
            ("postgres://me:s3cret@db/app?sslmode=s3cret", "sslmode"),
            ("postgres://me:s3cret@db/app?sslrootcert=%zzs3cret", "sslrootcert"),
            ("postgres://me:s3cret@db/app?sslrootcert=%f", "sslrootcert"),
            ("postgres://me:s3cret@db/app?operation_timeout_ms=0", "operation_timeout_ms"),
            ("postgres://me:s3cret@db/app?operation_timeout_ms=600001", "operation_timeout_ms"),
            ("postgres://me:s3cret@db/app?operation_timeout_ms=s3cret", "operation_timeout_ms"),
        ];
        for (url, field) in invalid {
            let error = parse(url).map(|_| ()).unwrap_err();
            assert_eq!(error.field(), Some(field), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        let shown = format!("{:?}", parse("postgres://me:s3cret@db/app").unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

//! Parses the URL of a server.

use tokio_postgres::config::Host;
use tollgate_core::{Error, Result};

const APPLICATION: &str = "tollgate";
const PORT: u16 = 5432;
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
const ACCEPTED: &str = "accepted: postgres://user:password@host:port/database";

/// A parsed URL. The driver omits the password in `Debug`.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) driver: tokio_postgres::Config,
    /// A file of certificate authorities that replace those of the operating system.
    pub(crate) root_file: Option<String>,
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

/// Parses a URL, with the parameters of the driver among its own. Errors never contain a value,
/// which may be a secret.
pub(crate) fn parse(base: &str, parameters: &[&str]) -> Result<tokio_postgres::Config> {
    if !SCHEMES.iter().any(|scheme| base.starts_with(scheme)) {
        return Err(Error::config("url", ACCEPTED));
    }
    let url = match parameters {
        [] => base.to_owned(),
        _ => format!("{base}?{}", parameters.join("&")),
    };
    let mut driver: tokio_postgres::Config = url.parse().map_err(|error| {
        // The source of the driver's error names the parameter, without its value.
        let reason = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        Error::config("url", format!("is not a PostgreSQL URL ({reason}); {ACCEPTED}"))
    })?;
    if driver.get_hosts().is_empty() {
        return Err(Error::config("url", "has no host"));
    }
    if driver.get_application_name().is_none() {
        driver.application_name(APPLICATION);
    }
    Ok(driver)
}

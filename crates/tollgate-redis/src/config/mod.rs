//! The configuration of the store, and its URL.
//!
//! | form | server |
//! |---|---|
//! | `redis://[user:password@]host[:port][/database]` | one server |
//! | `rediss://…` | the same, encrypted |
//! | `redis-cluster://[user:password@]host[:port],…` | a cluster; some of its nodes |
//! | `rediss-cluster://…` | the same, encrypted |
//! | `redis-sentinel://[user:password@]host[:port],…/master[/database]` | the master that sentinels name |
//!
//! Parameters follow a `?` and are joined by `&`: [`Config::parameters`]. User, password, master
//! and values are percent-decoded. A parameter that is not accepted is an error that names it;
//! passwords never show.

mod options;

use core::fmt;
use core::str::FromStr;

use tollgate_core::store::Retries;
use tollgate_core::store::parameters::{Parameter, ParameterSpec};
use tollgate_core::text::percent_decoded;
use tollgate_core::{Error, Result};

use crate::client::{Host, Login, PORT, SENTINEL_PORT, Secret};
use crate::layout::KeyLayout;
use options::{Options, PARAMETERS};

const SCHEMES: &str =
    "redis://, rediss://, redis-cluster://, rediss-cluster:// or redis-sentinel://";

/// Where Redis is, how to reach it, and how the store behaves. `Display` and `Debug` show no
/// password.
///
/// It is read from a URL: `redis://`, `rediss://`, `redis-cluster://`, `rediss-cluster://` or
/// `redis-sentinel://`, with parameters.
///
/// ```
/// use tollgate_core::store::Retries;
/// use tollgate_redis::Config;
///
/// let config: Config = "rediss-cluster://ada:s3cret@one:7000,two:7000?reply_timeout_ms=500".parse()?;
/// let config = config.retries(Retries::default().max_retries(5));
/// assert_eq!(config.to_string(), "rediss-cluster://ada:***@one:7000,two:7000");
/// assert!("redis://host?colour=red".parse::<Config>().is_err());
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) kind: Kind,
    pub(crate) hosts: Vec<Host>,
    pub(crate) login: Login,
    pub(crate) database: u32,
    pub(crate) options: Options,
    pub(crate) retries: Retries,
}

/// What the hosts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Standalone,
    Cluster,
    /// Sentinels that watch a master of this name.
    Sentinel(String),
}

impl Config {
    /// The parameters of the URL.
    pub fn parameters() -> impl Iterator<Item = ParameterSpec> {
        PARAMETERS.iter().map(Parameter::spec)
    }

    /// What decides the slot of a key in a cluster.
    #[must_use]
    pub const fn layout(mut self, layout: KeyLayout) -> Self {
        self.options.layout = layout;
        self
    }

    /// How often a charge is run again that lost a race or whose slot is being moved, and how
    /// long it waits before.
    #[must_use]
    pub const fn retries(mut self, retries: Retries) -> Self {
        self.retries = retries;
        self
    }

    /// The only host, where there is one.
    pub(crate) fn first_host(&self) -> Result<Host> {
        self.hosts.first().cloned().ok_or_else(|| Error::config("host", "a host is needed"))
    }
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let accepted = || Error::config("url", format!("a URL must begin with {SCHEMES}"));
        let (scheme, rest) = text.split_once("://").ok_or_else(accepted)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (login_of(login)?, hosts),
            None => (Login::default(), authority),
        };
        let mut options = Options::parse(query)?;
        if matches!(scheme, "rediss" | "rediss-cluster") {
            options.require_tls()?;
        }
        let (kind, database) = match scheme {
            "redis" | "rediss" => (Kind::Standalone, path),
            "redis-cluster" | "rediss-cluster" if matches!(path, "" | "0") => (Kind::Cluster, ""),
            "redis-cluster" | "rediss-cluster" => {
                return Err(Error::config("database", "a cluster has database 0 only"));
            }
            "redis-sentinel" => sentinel_of(path)?,
            _ => return Err(accepted()),
        };
        options.check(&kind)?;
        let default_port = if matches!(kind, Kind::Sentinel(_)) { SENTINEL_PORT } else { PORT };
        let hosts = hosts.split(',').map(|host| Host::parse(host, default_port));
        let hosts = hosts.collect::<Result<Vec<_>>>()?;
        if kind == Kind::Standalone && hosts.len() > 1 {
            let accepted = "one host; several need redis-cluster:// or redis-sentinel://";
            return Err(Error::config("host", accepted));
        }
        let database = database_of(database)?;
        Ok(Self { kind, hosts, login, database, options, retries: Retries::default() })
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.kind, self.options.tls) {
            (Kind::Standalone, false) => "redis://",
            (Kind::Standalone, true) => "rediss://",
            (Kind::Cluster, false) => "redis-cluster://",
            (Kind::Cluster, true) => "rediss-cluster://",
            (Kind::Sentinel(_), _) => "redis-sentinel://",
        })?;
        if self.login.password.is_some() {
            write!(f, "{}:***@", self.login.user.as_deref().unwrap_or_default())?;
        }
        for (index, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if index == 0 { "" } else { "," })?;
        }
        match &self.kind {
            Kind::Standalone => write!(f, "/{}", self.database),
            Kind::Cluster => Ok(()),
            Kind::Sentinel(master) => write!(f, "/{master}/{}", self.database),
        }
    }
}

/// `user:password`, or `:password` for the default user.
fn login_of(text: &str) -> Result<Login> {
    let accepted = "a login must be USER:PASSWORD@ or :PASSWORD@, percent-encoded";
    let (user, password) =
        text.split_once(':').ok_or_else(|| Error::config("password", accepted))?;
    let user = decoded("user", user)?;
    let password = Secret::new(decoded("password", password)?);
    Ok(Login { user: Some(user).filter(|user| !user.is_empty()), password: Some(password) })
}

fn sentinel_of(path: &str) -> Result<(Kind, &str)> {
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    let master = decoded("master", master)?;
    if master.is_empty() {
        let accepted = "the path must name the master, as in redis-sentinel://host/master";
        return Err(Error::config("master", accepted));
    }
    Ok((Kind::Sentinel(master), database))
}

fn database_of(text: &str) -> Result<u32> {
    let wrong = || Error::config("database", "a database must be a number, as in redis://host/0");
    if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| wrong()) }
}

/// Undoes percent-encoding.
fn decoded(field: &'static str, text: &str) -> Result<String> {
    let wrong =
        || Error::config(field, "must be UTF-8 in which % is followed by two hexadecimal digits");
    percent_decoded(text).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;

//! The options after the `?` of a URL.

use std::time::Duration;

use tollgate_core::{Error, Result};
use tollgate_net::tls::TlsFiles;

use super::{Kind, decoded};
use crate::client::{Login, Secret};

const NAMES: &str = "tls, ca, cert, key, server_name, connect_timeout_ms, reply_timeout_ms, \
     name, sentinel_user, sentinel_password or sentinel_tls";

const TIMEOUT_MAX_MS: u64 = 60_000;

/// The options, with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) tls: bool,
    pub(crate) tls_files: TlsFiles,
    pub(crate) connect_timeout: Duration,
    pub(crate) reply_timeout: Duration,
    pub(crate) name: Option<String>,
    pub(crate) sentinel_login: Login,
    pub(crate) sentinel_tls: bool,
    /// What `tls` was set to, if it was.
    tls_choice: Option<bool>,
    cert: Option<String>,
    key: Option<String>,
}

impl Options {
    /// Reads `name=value&name=value`.
    ///
    /// # Errors
    /// When a name is unknown or a value is not accepted.
    pub(super) fn parse(query: &str) -> Result<Self> {
        let mut options = Self {
            tls: false,
            tls_files: TlsFiles::default(),
            connect_timeout: Duration::from_millis(200),
            reply_timeout: Duration::from_millis(1_000),
            name: None,
            sentinel_login: Login::default(),
            sentinel_tls: false,
            tls_choice: None,
            cert: None,
            key: None,
        };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            options.set(name, value)?;
        }
        options.tls = options.tls_choice.unwrap_or(false);
        options.tls_files.identity = match (options.cert.take(), options.key.take()) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return Err(Error::config("key", "cert needs key=FILE beside it")),
            (None, Some(_)) => return Err(Error::config("cert", "key needs cert=FILE beside it")),
        };
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "tls" => self.tls_choice = Some(flag("tls", value)?),
            "ca" => self.tls_files.ca = Some(filled("ca", value)?),
            "cert" => self.cert = Some(filled("cert", value)?),
            "key" => self.key = Some(filled("key", value)?),
            "server_name" => self.tls_files.server_name = Some(filled("server_name", value)?),
            "connect_timeout_ms" => self.connect_timeout = timeout("connect_timeout_ms", value)?,
            "reply_timeout_ms" => self.reply_timeout = timeout("reply_timeout_ms", value)?,
            "name" => self.name = Some(client_name(value)?),
            "share" => check_share(value)?,
            "sentinel_user" => self.sentinel_login.user = Some(filled("sentinel_user", value)?),
            "sentinel_password" => {
                let password = Secret::new(decoded("sentinel_password", value)?);
                self.sentinel_login.password = Some(password);
            }
            "sentinel_tls" => self.sentinel_tls = flag("sentinel_tls", value)?,
            // The name of an unknown option is not repeated: it may be half of a password.
            _ => return Err(Error::config("options", format!("accepted are {NAMES}"))),
        }
        Ok(())
    }

    /// For a scheme that says so already.
    pub(super) fn require_tls(&mut self) -> Result<()> {
        if self.tls_choice == Some(false) {
            return Err(Error::config("tls", "rediss is encrypted; write redis instead for plain"));
        }
        self.tls = true;
        Ok(())
    }

    /// Refuses options that would have no effect.
    pub(super) fn check(&self, kind: &Kind) -> Result<()> {
        let is_sentinel = matches!(kind, Kind::Sentinel(_));
        if !is_sentinel && (self.sentinel_login != Login::default() || self.sentinel_tls) {
            let message = "options of sentinels need redis-sentinel://";
            return Err(Error::config("sentinel_user", message));
        }
        if self.sentinel_login.user.is_some() && self.sentinel_login.password.is_none() {
            let message = "sentinel_user needs sentinel_password beside it";
            return Err(Error::config("sentinel_password", message));
        }
        if !self.tls && !self.sentinel_tls && self.tls_files != TlsFiles::default() {
            let message =
                "ca, cert, key and server_name need rediss://, rediss-cluster:// or tls=true";
            return Err(Error::config("tls", message));
        }
        Ok(())
    }
}

fn flag(field: &'static str, value: &str) -> Result<bool> {
    value.parse().map_err(|_| Error::config(field, "must be true or false"))
}

/// Keys of one slot share calls, and there is no other way: a script may touch only keys that it
/// declares, and those have to be in one slot.
fn check_share(value: &str) -> Result<()> {
    match value {
        "slot" => Ok(()),
        _ => Err(Error::config("share", "must be slot: keys of several slots do not share a call")),
    }
}

fn filled(field: &'static str, value: &str) -> Result<String> {
    match decoded(field, value)? {
        empty if empty.is_empty() => Err(Error::config(field, "must not be empty")),
        filled => Ok(filled),
    }
}

fn timeout(field: &'static str, value: &str) -> Result<Duration> {
    number(field, value, TIMEOUT_MAX_MS).map(Duration::from_millis)
}

fn number(field: &'static str, value: &str, max: u64) -> Result<u64> {
    let number = value.parse().ok().filter(|number| (1..=max).contains(number));
    number.ok_or_else(|| Error::config(field, format!("must be a number from 1 to {max}")))
}

/// Redis refuses spaces and what does not print.
fn client_name(value: &str) -> Result<String> {
    let name = filled("name", value)?;
    if name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(name);
    }
    Err(Error::config("name", "must be ASCII that prints, without spaces"))
}

//! The parameters after the `?` of a URL.

use std::time::Duration;

use tollgate_core::store::parameters::{Parameter, filled, flag, set_all, whole, word};
use tollgate_core::{Error, Result};
use tollgate_net::tls::TlsFiles;

use super::Kind;
use crate::client::{Login, Secret};
use crate::layout::KeyLayout;

const TIMEOUT_MAX_MS: u64 = 60_000;

pub(super) const PARAMETERS: &[Parameter<Options>] = &[
    Parameter::new(
        "connect_timeout_ms",
        "200",
        "1 to 60000",
        "for connecting, TLS and logging in together",
        |options, text| timeout(text).map(|timeout| options.connect_timeout = timeout),
    ),
    Parameter::new(
        "reply_timeout_ms",
        "1000",
        "1 to 60000",
        "a connection that is silent for this long is closed",
        |options, text| timeout(text).map(|timeout| options.reply_timeout = timeout),
    ),
    Parameter::new(
        "name",
        "",
        "ASCII that prints, without spaces",
        "the name of these connections on the server (`CLIENT SETNAME`)",
        |options, text| client_name(text).map(|name| options.name = Some(name)),
    ),
    Parameter::new(
        "layout",
        "subject",
        "subject, prefix",
        "what decides the slot of a key: its subject, or its prefix: then all keys of a prefix \
         are in one slot, and may be charged in one call",
        |options, text| {
            let words = [("subject", KeyLayout::BySubject), ("prefix", KeyLayout::ByPrefix)];
            word(text, &words).map(|layout| options.layout = layout)
        },
    ),
    // Keys of several slots never share a call: a script may touch only keys that it declares, and
    // those have to be in one slot.
    Parameter::new(
        "share",
        "slot",
        "slot",
        "which keys share a call on a cluster: those of one slot",
        |_, text| word(text, &[("slot", ())]),
    ),
    Parameter::new(
        "tls",
        "by the scheme",
        "true, false",
        "encrypts; also for a master behind sentinels",
        |options, text| flag(text).map(|tls| options.tls_choice = Some(tls)),
    ),
    Parameter::new(
        "ca",
        "",
        "a PEM file",
        "authorities of certificates, instead of those of the operating system",
        |options, text| filled(text).map(|file| options.tls_files.ca = Some(file)),
    ),
    Parameter::new("cert", "", "a PEM file", "a client certificate", |options, text| {
        filled(text).map(|file| options.cert = Some(file))
    }),
    Parameter::new(
        "key",
        "",
        "a PEM file",
        "the key of the client certificate",
        |options, text| filled(text).map(|file| options.key = Some(file)),
    ),
    Parameter::new(
        "server_name",
        "the host",
        "a name",
        "the name that the certificate of the server must have",
        |options, text| filled(text).map(|name| options.tls_files.server_name = Some(name)),
    ),
    Parameter::new(
        "sentinel_user",
        "",
        "a name",
        "the login for the sentinels",
        |options, text| filled(text).map(|user| options.sentinel_login.user = Some(user)),
    ),
    Parameter::new(
        "sentinel_password",
        "",
        "a password",
        "the password for the sentinels",
        |options, text| {
            options.sentinel_login.password = Some(Secret::new(text.to_owned()));
            Some(())
        },
    ),
    Parameter::new(
        "sentinel_tls",
        "false",
        "true, false",
        "whether connections to the sentinels are encrypted",
        |options, text| flag(text).map(|tls| options.sentinel_tls = tls),
    ),
];

/// The options, with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) tls: bool,
    pub(crate) tls_files: TlsFiles,
    pub(crate) connect_timeout: Duration,
    pub(crate) reply_timeout: Duration,
    pub(crate) name: Option<String>,
    pub(crate) layout: KeyLayout,
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
            layout: KeyLayout::default(),
            sentinel_login: Login::default(),
            sentinel_tls: false,
            tls_choice: None,
            cert: None,
            key: None,
        };
        set_all(&mut options, query, PARAMETERS)?;
        options.tls = options.tls_choice.unwrap_or(false);
        options.tls_files.identity = match (options.cert.take(), options.key.take()) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            (Some(_), None) => return Err(Error::config("key", "cert needs key=FILE beside it")),
            (None, Some(_)) => return Err(Error::config("cert", "key needs cert=FILE beside it")),
        };
        Ok(options)
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

fn timeout(text: &str) -> Option<Duration> {
    whole(text, 1..=TIMEOUT_MAX_MS).map(Duration::from_millis)
}

/// Redis refuses spaces and what does not print.
fn client_name(text: &str) -> Option<String> {
    filled(text).filter(|name| name.bytes().all(|byte| byte.is_ascii_graphic()))
}

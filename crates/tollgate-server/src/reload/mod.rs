//! A configuration that is applied while the server runs: policies, tokens, certificates, secrets
//! and logs. All of it is applied, or nothing; what changed is logged.
//!
//! Connections stay open. Requests under way end as they began; a connection that has sent a token
//! before has the rights that the token has now.

mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::rustls::ServerConfig;
use tollgate::Result;
use tollgate_service::policy::PolicyChange;
use tollgate_service::receipt::ReceiptKey;
use tracing::level_filters::LevelFilter;

use crate::app::App;
use crate::config::{Config, ConfigError, ConfigErrors, Setting, SettingChange, Tls};
use crate::listen::{Acceptor, TlsFiles};

pub use watch::Watch;

/// Applies configurations to a server that runs.
#[derive(Debug)]
pub struct Reloader {
    app: Arc<App>,
    acceptors: Vec<Acceptor>,
    running: Mutex<Running>,
}

/// What is in force.
#[derive(Debug)]
struct Running {
    config: Config,
    tls: Option<TlsFiles>,
}

/// What a reload changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// Policy by policy.
    pub policies: Vec<PolicyChange>,
    /// Settings that changed, also those that need a restart.
    pub settings: Vec<SettingChange>,
    /// Whether the contents of the files of TLS changed.
    pub certificates: bool,
    /// The level of the log, which is for the program to set.
    pub log_level: LevelFilter,
}

impl Reloader {
    pub(crate) fn new(
        app: Arc<App>,
        acceptors: Vec<Acceptor>,
        config: Config,
        tls: Option<TlsFiles>,
    ) -> Self {
        Self { app, acceptors, running: Mutex::new(Running { config, tls }) }
    }

    /// Applies a configuration, and logs what changed. One that is not valid changes nothing, and
    /// is logged.
    ///
    /// # Errors
    /// All errors of the configuration, also those of its files of TLS.
    pub fn apply(
        &self,
        config: std::result::Result<Config, ConfigErrors>,
    ) -> std::result::Result<Reloaded, ConfigErrors> {
        let reloaded = config.and_then(|config| self.replace(config));
        match &reloaded {
            Ok(reloaded) => self.report(reloaded),
            Err(errors) => {
                self.app.engine().refuse_policies();
                tracing::error!(%errors, "the configuration is invalid; all stays as it was");
            }
        }
        reloaded
    }

    fn replace(&self, config: Config) -> std::result::Result<Reloaded, ConfigErrors> {
        // Nothing panics while it is locked.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let file = config.file().map(str::to_owned);
        let (config, settings) = config.applicable(&running.config)?;
        let tls = self.prepare(config.tls.as_ref(), running.tls.as_ref());
        let tls = tls.map_err(|error| {
            let field = error.field().unwrap_or("tls_cert");
            ConfigErrors { file, list: vec![ConfigError::new(field, error.message())] }
        })?;
        let certificates = tls.is_some();
        if let Some((files, prepared)) = tls {
            for (acceptor, config) in self.acceptors.iter().zip(prepared) {
                acceptor.replace(config);
            }
            running.tls = Some(files);
        }
        let engine = self.app.engine();
        let policies = engine.policies().changes_to(&config.policies);
        engine.replace_policies(config.policies.clone());
        self.app.apply(&config);
        self.replace_receipt_key(&running.config, &config);
        let log_level = config.log.level;
        running.config = config;
        Ok(Reloaded { policies, settings, certificates, log_level })
    }

    /// What the listeners need for the files of TLS, if they have changed.
    fn prepare(
        &self,
        tls: Option<&Tls>,
        before: Option<&TlsFiles>,
    ) -> Result<Option<(TlsFiles, Vec<Arc<ServerConfig>>)>> {
        let Some(tls) = tls else { return Ok(None) };
        let files = TlsFiles::read(tls)?;
        if Some(&files) == before {
            return Ok(None);
        }
        let prepared = self.acceptors.iter().map(|acceptor| acceptor.prepare(&files));
        let prepared = prepared.collect::<Result<_>>()?;
        Ok(Some((files, prepared)))
    }

    /// Makes receipts with the secret of a configuration, if it is another one.
    fn replace_receipt_key(&self, before: &Config, config: &Config) {
        let secrets = [Setting::ReceiptSecret, Setting::HashSecret];
        let is_same = secrets.into_iter().all(|secret| config.same(before, secret));
        if is_same || self.app.engine().in_process() {
            return;
        }
        if let Some(key) = config.receipt_key.clone().or_else(ReceiptKey::random) {
            self.app.engine().replace_receipt_key(&key);
        }
    }

    fn report(&self, reloaded: &Reloaded) {
        let awaiting = reloaded.settings.iter().filter(|change| change.needs_restart).count();
        self.app.telemetry.metrics.awaiting_restart(awaiting);
        let mut noted = Vec::new();
        for change in &reloaded.settings {
            let (setting, change_text) = (change.setting.name(), &*change.text);
            if change.needs_restart {
                tracing::warn!(setting, change = change_text, "a changed setting needs a restart");
            } else {
                tracing::info!(setting, change = change_text, "a setting has changed");
            }
            noted.push(change.to_string());
            if change.setting == Setting::HashSecret {
                tracing::warn!(
                    "hash_secret has changed: keys of policies with hash_keys begin anew"
                );
            }
        }
        if reloaded.certificates {
            tracing::info!("new connections get the certificates that were read");
            noted.push("new certificates".to_owned());
        }
        if !noted.is_empty() {
            self.app.telemetry.changes.add(format!("Settings: {}.", noted.join("; ")));
        }
        let policies = reloaded.policies.len();
        tracing::info!(policies, settings = noted.len(), "the configuration was reloaded");
    }

    /// The files of TLS that are in force.
    pub(crate) fn tls(&self) -> Option<Tls> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.config.tls.clone()
    }

    /// Says that a file of the configuration is gone, or back; and how many are gone.
    pub(crate) fn file_changed(&self, file: &str, problem: Option<&str>, missing: usize) {
        self.app.telemetry.metrics.missing_files(missing);
        let text = match problem {
            Some(why) => {
                tracing::warn!(file, why, "a file is gone; all stays as it was");
                format!("The file {file} is gone: all stays as it was.")
            }
            None => {
                tracing::info!(file, "a file is back");
                format!("The file {file} is back.")
            }
        };
        self.app.telemetry.changes.add(text);
    }
}

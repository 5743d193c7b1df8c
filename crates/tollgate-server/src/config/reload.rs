//! What a reload of the configuration changes: settings that are applied, and settings that need a
//! restart.

use std::fmt;

use super::{Config, ConfigErrors, Setting, assemble};

/// A setting whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingChange {
    /// The setting.
    pub setting: Setting,
    /// What it changed from and to; secrets are not shown.
    pub text: String,
    /// Whether the change is not applied before a restart.
    pub needs_restart: bool,
}

impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let restart = if self.needs_restart { "; needs a restart" } else { "" };
        write!(f, "{}: {}{restart}", self.setting.name(), self.text)
    }
}

impl Config {
    /// This configuration as a server can apply it that runs with another one: settings that need
    /// a restart keep their values. Also what has changed.
    ///
    /// # Errors
    /// When what is left of it is not valid, such as no tokens where the address that is listened
    /// on needs some.
    pub(crate) fn applicable(
        self,
        running: &Self,
    ) -> Result<(Self, Vec<SettingChange>), ConfigErrors> {
        let tls_is_switched = self.tls.is_some() != running.tls.is_some();
        let Self { mut settings, policies, file, .. } = self;
        let mut changes = Vec::new();
        for setting in Setting::ALL {
            if settings.text(setting) == running.settings.text(setting) {
                continue;
            }
            // Listeners with and without TLS are different ones.
            let is_tls =
                matches!(setting, Setting::TlsCert | Setting::TlsKey | Setting::TlsClientCa);
            let needs_restart = !setting.reloads() || is_tls && tls_is_switched;
            let text = running.settings.change(setting, &settings);
            changes.push(SettingChange { setting, text, needs_restart });
        }
        for change in changes.iter().filter(|change| change.needs_restart) {
            settings.take(change.setting, &running.settings);
        }
        let mut errors = Vec::new();
        let applicable = assemble(settings, Some(policies), &mut errors);
        match applicable {
            Some(mut config) if errors.is_empty() => {
                config.file = file;
                // Without a secret the hash is made anew with each configuration.
                if config.same(running, Setting::HashSecret) {
                    config.log.keys = running.log.keys.clone().plain(config.log.keys.is_plain());
                }
                Ok((config, changes))
            }
            _ => Err(ConfigErrors { file, list: errors }),
        }
    }

    /// Whether a setting has the same value in another configuration.
    pub(crate) fn same(&self, other: &Self, setting: Setting) -> bool {
        self.settings.text(setting) == other.settings.text(setting)
    }
}

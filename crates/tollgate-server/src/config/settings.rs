//! Every setting by its name, its value as text, and where it came from: flags over environment
//! over file over what is built in.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_service::config::{ConfigError, Section};

use super::catalog::{Kind, SETTINGS, Setting};

/// Variables of an earlier service and of OpenTelemetry, and the settings they are. Backoffs of the
/// former are milliseconds.
const EARLIER: [(&str, &str, &str); 7] = [
    ("BASE_BACKOFF_MS", "base_backoff", "ms"),
    ("BIND_ADDR", "grpc", ""),
    ("DEFAULT_CAPACITY", "default_capacity", ""),
    ("DEFAULT_REFILL_RATE", "default_refill_rate", ""),
    ("MAX_BACKOFF_MS", "max_backoff", "ms"),
    ("MAX_RETRIES", "max_retries", ""),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint", ""),
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag of the command.
    Flag(String),
    /// A variable of the environment.
    Environment(String),
    /// A line of the file.
    File(usize),
    /// The default.
    BuiltIn,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(line) => write!(f, "file, line {line}"),
            Self::BuiltIn => f.write_str("built in"),
        }
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub(super) struct Settings(BTreeMap<&'static str, (String, Source)>);

impl Settings {
    /// What flags set: pairs of a setting and its value.
    pub(super) fn of_flags(flags: &[(&'static str, String)]) -> Self {
        let named = flags.iter().map(|(name, value)| {
            let flag = format!("--{}", name.replace('_', "-"));
            (*name, (value.clone(), Source::Flag(flag)))
        });
        Self(named.collect())
    }

    fn set(&mut self, name: &'static str, value: String, source: Source) {
        self.0.entry(name).or_insert((value, source));
    }

    /// Adds what the environment sets and flags do not.
    pub(super) fn add_environment(
        &mut self,
        variable: &impl Fn(&str) -> Option<String>,
        errors: &mut Vec<ConfigError>,
    ) {
        for Setting { name, .. } in SETTINGS {
            let own = format!("TOLLGATE_{}", name.to_uppercase());
            if let Some(value) = variable(&own) {
                self.set(name, value, Source::Environment(own));
            }
        }
        for (earlier, name, unit) in EARLIER {
            if let Some(value) = variable(earlier) {
                self.set(name, format!("{value}{unit}"), Source::Environment(earlier.to_owned()));
            }
        }
        if !self.0.contains_key("store") {
            self.add_backend(variable, errors);
        }
    }

    /// `BACKEND` with the address of its store, or such an address alone.
    fn add_backend(
        &mut self,
        variable: &impl Fn(&str) -> Option<String>,
        errors: &mut Vec<ConfigError>,
    ) {
        let (backend, postgres, redis) =
            (variable("BACKEND"), variable("DATABASE_URL"), variable("REDIS_URL"));
        let chosen = match (backend.as_deref(), postgres, redis) {
            (None, None, None) => return,
            (Some("memory"), _, _) => Ok(("memory:".to_owned(), "BACKEND")),
            (Some("postgres"), Some(url), _) | (None, Some(url), None) => Ok((url, "DATABASE_URL")),
            (Some("redis"), _, Some(url)) | (None, None, Some(url)) => Ok((url, "REDIS_URL")),
            (Some("postgres"), None, _) => Err("is postgres and needs DATABASE_URL"),
            (Some("redis"), _, None) => Err("is redis and needs REDIS_URL"),
            (None, Some(_), Some(_)) => Err("is missing, and both DATABASE_URL and REDIS_URL are \
                                             set; accepted: postgres, redis"),
            (Some(_), _, _) => Err("is none that is known; accepted: memory, postgres, redis"),
        };
        match chosen {
            Ok((url, name)) => self.set("store", url, Source::Environment(name.to_owned())),
            Err(message) => errors.push(ConfigError::new("BACKEND", message)),
        }
    }

    /// Adds the settings of the file that flags and environment leave open.
    pub(super) fn add_file(&mut self, section: &mut Section<'_>, errors: &mut Vec<ConfigError>) {
        for Setting { name, .. } in SETTINGS {
            if let Some(value) = section.text(name, errors) {
                self.set(name, value.to_owned(), Source::File(section.line_of(name)));
            }
        }
    }

    /// Adds what is built in.
    pub(super) fn add_built_in(&mut self) {
        for Setting { name, built_in, .. } in SETTINGS {
            self.set(name, built_in.to_owned(), Source::BuiltIn);
        }
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |(value, _)| value)
    }

    /// A value that is read by `parse`; an error names where it was set.
    pub(super) fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, String>,
        errors: &mut Vec<ConfigError>,
    ) -> Option<T> {
        match parse(self.text(name)) {
            Ok(value) => Some(value),
            Err(message) => {
                errors.push(self.error(name, message));
                None
            }
        }
    }

    /// An error of a setting, located where it was set.
    pub(super) fn error(&self, name: &str, message: impl Into<String>) -> ConfigError {
        match self.0.get(name).map(|(_, source)| source) {
            Some(Source::File(line)) => ConfigError::at(*line, name, message),
            Some(Source::Flag(by) | Source::Environment(by)) => {
                ConfigError::new(by.clone(), message)
            }
            Some(Source::BuiltIn) | None => ConfigError::new(name, message),
        }
    }

    /// Name, value and source of everything, secrets hidden.
    pub(super) fn show(&self) -> Vec<(&'static str, String, Source)> {
        let hidden = |kind: Kind, value: &str| match (kind, value) {
            (_, "") => "not set".to_owned(),
            (Kind::Secret, _) => "***".to_owned(),
            (Kind::Store, address) => hide_password(address),
            (_, value) => value.to_owned(),
        };
        let line = |setting: &Setting| {
            let (value, source) = self.0.get(setting.name)?;
            Some((setting.name, hidden(setting.kind, value), source.clone()))
        };
        SETTINGS.iter().filter_map(line).collect()
    }
}

/// The address of a store without its credentials and its options, which may hold some.
#[must_use]
pub fn hide_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (credentials, place) = match rest.rsplit_once('@') {
        // A password that is not encoded, or an option with an `@`: its end is unknown.
        Some((before, _)) if before.contains(['?', '#']) => return format!("{scheme}://***"),
        Some((_, place)) => ("***@", place),
        None => ("", rest),
    };
    let place = place.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{credentials}{place}")
}

#[cfg(test)]
mod tests {
    use super::hide_password;

    #[test]
    fn passwords_are_hidden_wherever_they_are() {
        assert_eq!(hide_password("memory:"), "memory:");
        assert_eq!(hide_password("redis://:pa@ss@host:1/0"), "redis://***@host:1/0");
        assert_eq!(hide_password("postgres://u:p@h/db?password=x"), "postgres://***@h/db");
        assert_eq!(hide_password("postgres://h/db?password=x"), "postgres://h/db");
        assert_eq!(hide_password("redis://:hunter2#x@host"), "redis://***");
        assert_eq!(hide_password("redis://:hunter2?x@host"), "redis://***");
        assert_eq!(hide_password("postgres://u:p@h/db?password=x@y"), "postgres://***");
    }
}

//! Every setting by its name, its value as text, and where it came from: flags over environment
//! over file over what is built in.

use std::collections::BTreeMap;
use std::fmt;

use tollgate_service::config::values::nearest;
use tollgate_service::config::{ConfigError, Location, Section};

use super::catalog::{Kind, Setting};
use super::{store_section, token_list};

/// Variables of an earlier service and of OpenTelemetry, and the settings they are. Backoffs of the
/// former are milliseconds.
const EARLIER: [(&str, Setting, &str); 7] = [
    ("BASE_BACKOFF_MS", Setting::BaseBackoff, "ms"),
    ("BIND_ADDR", Setting::Grpc, ""),
    ("DEFAULT_CAPACITY", Setting::DefaultCapacity, ""),
    ("DEFAULT_REFILL_RATE", Setting::DefaultRefillRate, ""),
    ("MAX_BACKOFF_MS", Setting::MaxBackoff, "ms"),
    ("MAX_RETRIES", Setting::MaxRetries, ""),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", Setting::OtlpEndpoint, ""),
];

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A flag of the command.
    Flag(String),
    /// A variable of the environment.
    Environment(String),
    /// A place in the file.
    File(Location),
    /// The default.
    BuiltIn,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) => f.write_str(name),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(place) => write!(f, "file, line {}", place.line),
            Self::BuiltIn => f.write_str("built in"),
        }
    }
}

/// The values that were set; every other setting has its default.
#[derive(Clone, Debug)]
pub(super) struct Settings(BTreeMap<Setting, (String, Source)>);

impl Settings {
    /// What flags set: pairs of a setting and its value.
    pub(super) fn of_flags(flags: &[(Setting, String)]) -> Self {
        let named = flags.iter().map(|(setting, value)| {
            let flag = format!("--{}", setting.name().replace('_', "-"));
            (*setting, (value.clone(), Source::Flag(flag)))
        });
        Self(named.collect())
    }

    fn set(&mut self, setting: Setting, value: String, source: Source) {
        self.0.entry(setting).or_insert((value, source));
    }

    /// Adds what the environment sets and flags do not.
    pub(super) fn add_environment(
        &mut self,
        variable: &impl Fn(&str) -> Option<String>,
        errors: &mut Vec<ConfigError>,
    ) {
        for setting in Setting::ALL {
            let own = format!("TOLLGATE_{}", setting.name().to_uppercase());
            if let Some(value) = variable(&own) {
                self.set(setting, value, Source::Environment(own));
            }
        }
        for (earlier, setting, unit) in EARLIER {
            if let Some(value) = variable(earlier) {
                self.set(
                    setting,
                    format!("{value}{unit}"),
                    Source::Environment(earlier.to_owned()),
                );
            }
        }
        if !self.0.contains_key(&Setting::Store) {
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
            (Some("postgres"), None, _) => Err("is postgres, and DATABASE_URL is not set; set it"),
            (Some("redis"), _, None) => Err("is redis, and REDIS_URL is not set; set it"),
            (None, Some(_), Some(_)) => {
                Err("is not set, and both DATABASE_URL and REDIS_URL are; \
                                             set it to postgres or redis")
            }
            (Some(_), _, _) => Err("is not a backend; set it to memory, postgres or redis"),
        };
        match chosen {
            Ok((url, name)) => self.set(Setting::Store, url, Source::Environment(name.to_owned())),
            Err(message) => errors.push(ConfigError::new("BACKEND", message)),
        }
    }

    /// Adds the settings of the file that flags and environment leave open.
    pub(super) fn add_file(&mut self, section: &mut Section<'_>, errors: &mut Vec<ConfigError>) {
        for setting in Setting::ALL {
            let value = match setting.kind() {
                Kind::Store => store_section::address(section, setting.name(), errors),
                Kind::Tokens => token_list::text(section, setting.name(), errors),
                _ => section.text(setting.name(), errors).map(str::to_owned),
            };
            if let Some(value) = value {
                // An error prints its place: the name of a secret, and no secret.
                let name = setting.name();
                let is_public = !matches!(setting.kind(), Kind::Secret | Kind::Store);
                let place =
                    if is_public { section.place_of(name) } else { section.name_place_of(name) };
                self.set(setting, value, Source::File(place));
            }
        }
    }

    pub(super) fn text(&self, setting: Setting) -> &str {
        self.0.get(&setting).map_or(setting.built_in(), |(value, _)| value)
    }

    /// A value that is read by `parse`; an error names where it was set.
    pub(super) fn parsed<T>(
        &self,
        setting: Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
        errors: &mut Vec<ConfigError>,
    ) -> Option<T> {
        match parse(self.text(setting)) {
            Ok(value) => Some(value),
            Err(message) => {
                errors.push(self.error(setting, message));
                None
            }
        }
    }

    /// What a change of a setting is called: secrets are not shown.
    pub(super) fn change(&self, setting: Setting, to: &Self) -> String {
        match setting.kind() {
            Kind::Secret | Kind::Tokens => "changed".to_owned(),
            _ => format!("from {} to {}", self.shown(setting), to.shown(setting)),
        }
    }

    /// Takes over the value of a setting, and where it came from.
    pub(super) fn take(&mut self, setting: Setting, from: &Self) {
        match from.0.get(&setting) {
            Some(value) => self.0.insert(setting, value.clone()),
            None => self.0.remove(&setting),
        };
    }

    /// A value as operators may see it.
    fn shown(&self, setting: Setting) -> String {
        match (setting.kind(), self.text(setting)) {
            (_, "") => "not set".to_owned(),
            (Kind::Secret | Kind::Tokens, _) => "***".to_owned(),
            (Kind::Store, address) => hide_password(address),
            (_, value) => value.to_owned(),
        }
    }

    /// An error of a setting, located where it was set.
    pub(super) fn error(&self, setting: Setting, message: impl Into<String>) -> ConfigError {
        match self.0.get(&setting).map(|(_, source)| source) {
            Some(Source::File(place)) => ConfigError::at(*place, setting.name(), message),
            Some(Source::Flag(by) | Source::Environment(by)) => {
                ConfigError::new(by.clone(), message)
            }
            Some(Source::BuiltIn) | None => ConfigError::new(setting.name(), message),
        }
    }

    /// An error of a field that another part has named, located where the setting of that name was
    /// set.
    pub(super) fn error_of(&self, field: &str, message: &str) -> ConfigError {
        match Setting::of_name(field) {
            Some(setting) => self.error(setting, message),
            None => ConfigError::new(field, message),
        }
    }

    /// Name, value and source of everything, secrets hidden.
    pub(super) fn show(&self) -> Vec<(&'static str, String, Source)> {
        let source = |setting| match self.0.get(&setting) {
            Some((_, source)) => source.clone(),
            None => Source::BuiltIn,
        };
        let line = |setting: Setting| (setting.name(), self.shown(setting), source(setting));
        Setting::ALL.into_iter().map(line).collect()
    }
}

/// Whether errors may repeat the value of a field at the top of a file.
pub(super) fn is_public(name: &str) -> bool {
    let kind = Setting::of_name(name).map(Setting::kind);
    name == "policies" || kind.is_some_and(|kind| !matches!(kind, Kind::Secret | Kind::Store))
}

/// Variables that commands read beside the settings.
const OF_COMMANDS: [&str; 2] = ["TOLLGATE_CONFIG", "TOLLGATE_TOKEN"];
/// What Kubernetes sets for a service with the name `tollgate`.
const OF_KUBERNETES: [&str; 2] = ["TOLLGATE_PORT", "TOLLGATE_SERVICE_"];

/// What is wrong with a variable that looks like a setting and is none.
pub(super) fn unknown_variable(name: &str) -> Option<String> {
    const PREFIX: &str = "TOLLGATE_";
    let setting = name.strip_prefix(PREFIX)?;
    let is_foreign = OF_KUBERNETES.iter().any(|other| name.starts_with(other));
    if is_foreign || OF_COMMANDS.contains(&name) {
        return None;
    }
    let own: Vec<String> = Setting::ALL.iter().map(|own| own.name().to_uppercase()).collect();
    if own.iter().any(|own| own == setting) {
        return None;
    }
    let of_commands = OF_COMMANDS.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let near = nearest(setting, own.iter().map(String::as_str).chain(of_commands));
    let hint = match near {
        Some(near) => format!("did you mean {PREFIX}{near}?"),
        None => "`tollgate config show` prints every setting".to_owned(),
    };
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    Some(format!("the variable {name} is not a setting, and is ignored; {hint}"))
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

//! The parameters of a store's address: `?name=value&name=value`.
//!
//! A store has one list of them. Reading, errors and the tables of the documentation come from
//! there, so that none of them can leave a parameter out.

use core::ops::RangeInclusive;
use core::time::Duration;

use crate::error::{Error, Result};
use crate::text::percent_decoded;

/// The longest duration: a year.
const MS_MAX: u64 = 31_536_000_000;

/// What documents state about a parameter, and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterSpec {
    /// Its name.
    pub name: &'static str,
    /// Its default; empty for none.
    pub default: &'static str,
    /// The accepted values.
    pub accepted: &'static str,
    /// What it is for, in a sentence without an end.
    pub meaning: &'static str,
}

/// A parameter of the address of a store with the configuration `C`.
#[derive(Debug)]
pub struct Parameter<C> {
    spec: ParameterSpec,
    set: fn(&mut C, &str) -> Option<()>,
}

impl<C> Parameter<C> {
    /// A parameter, with the texts of its [`ParameterSpec`]. `set` gets the value without
    /// percent-encoding, and returns `None` if it is not accepted.
    #[must_use]
    pub const fn new(
        name: &'static str,
        default: &'static str,
        accepted: &'static str,
        meaning: &'static str,
        set: fn(&mut C, &str) -> Option<()>,
    ) -> Self {
        Self { spec: ParameterSpec { name, default, accepted, meaning }, set }
    }

    /// What documents state about it.
    #[must_use]
    pub const fn spec(&self) -> ParameterSpec {
        self.spec
    }

    fn is_in(&self, pair: &str) -> bool {
        name_of(pair) == self.spec.name
    }

    fn apply(&self, config: &mut C, pair: &str) -> Result<()> {
        let refused = |reason| Error::config(self.spec.name, reason);
        let value = pair.split_once('=').map_or("", |(_, value)| value);
        let value = percent_decoded(value)
            .ok_or_else(|| refused("is not percent-encoded UTF-8".to_owned()))?;
        (self.set)(config, &value)
            .ok_or_else(|| refused(format!("is not accepted; accepted: {}", self.spec.accepted)))
    }
}

/// Sets every parameter of a query that is in the list, and returns the pairs of other names.
///
/// # Errors
/// `config_invalid` naming a parameter whose value is not accepted, or that is there twice. No
/// message contains a value, which may be a secret.
pub fn set_known<'q, C>(
    config: &mut C,
    query: &'q str,
    parameters: &[Parameter<C>],
) -> Result<Vec<&'q str>> {
    let mut others = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some(parameter) = parameters.iter().find(|parameter| parameter.is_in(pair)) else {
            others.push(pair);
            continue;
        };
        if seen.contains(&parameter.spec.name) {
            return Err(Error::config(parameter.spec.name, "is there twice; accepted: once"));
        }
        seen.push(parameter.spec.name);
        parameter.apply(config, pair)?;
    }
    Ok(others)
}

/// Sets every parameter of a query.
///
/// # Errors
/// As [`set_known`]; `config_invalid` naming `url` for a name that is not in the list. The name is
/// not repeated: it may be a part of a password.
pub fn set_all<C>(config: &mut C, query: &str, parameters: &[Parameter<C>]) -> Result<()> {
    if set_known(config, query, parameters)?.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = parameters.iter().map(|parameter| parameter.spec.name).collect();
    let accepted = format!("has an unknown parameter; accepted: {}", names.join(", "));
    Err(Error::config("url", accepted))
}

fn name_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

/// A whole number within bounds.
#[must_use]
pub fn whole<N: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Option<N> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_digits && range.contains(number))?;
    N::try_from(number).ok()
}

/// A duration of at least a millisecond, in milliseconds.
#[must_use]
pub fn ms(text: &str) -> Option<Duration> {
    whole(text, 1..=MS_MAX).map(Duration::from_millis)
}

/// A duration in milliseconds, or none for 0.
#[must_use]
pub fn ms_or_off(text: &str) -> Option<Option<Duration>> {
    match text {
        "0" => Some(None),
        _ => ms(text).map(Some),
    }
}

/// One of several words, by its value.
#[must_use]
pub fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Option<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
}

/// `true` or `false`.
#[must_use]
pub fn flag(text: &str) -> Option<bool> {
    text.parse().ok()
}

/// A text that is not empty.
#[must_use]
pub fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Config {
        size: usize,
        file: Option<String>,
    }

    const PARAMETERS: [Parameter<Config>; 2] = [
        Parameter::new("size", "", "1 to 9", "", |config, text| {
            whole(text, 1..=9).map(|size| config.size = size)
        }),
        Parameter::new("file", "", "a path", "", |config, text| {
            filled(text).map(|file| config.file = Some(file))
        }),
    ];

    #[test]
    fn values_are_decoded_and_other_names_are_returned() {
        let mut config = Config::default();
        let others = set_known(&mut config, "a=1&size=3&&file=%2Fa%20b&b", &PARAMETERS);
        assert_eq!(others.unwrap(), ["a=1", "b"]);
        assert_eq!(config, Config { size: 3, file: Some("/a b".to_owned()) });
        set_all(&mut config, "", &PARAMETERS).unwrap();
        assert_eq!(config.size, 3);
    }

    #[test]
    fn errors_name_the_parameter_and_contain_no_value() {
        for (query, field, message) in [
            ("size=s3cret", "size", "is not accepted; accepted: 1 to 9"),
            ("size=10", "size", "is not accepted; accepted: 1 to 9"),
            ("size=+1", "size", "is not accepted; accepted: 1 to 9"),
            ("size", "size", "is not accepted; accepted: 1 to 9"),
            ("file=", "file", "is not accepted; accepted: a path"),
            ("file=%zzs3cret", "file", "is not percent-encoded UTF-8"),
            ("size=1&size=2", "size", "is there twice; accepted: once"),
            ("s3cret=1", "url", "has an unknown parameter; accepted: size, file"),
        ] {
            let error = set_all(&mut Config::default(), query, &PARAMETERS).unwrap_err();
            assert_eq!((error.field(), error.message()), (Some(field), message), "{query}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn durations_are_whole_milliseconds() {
        assert_eq!(ms("250"), Some(Duration::from_millis(250)));
        assert_eq!(ms_or_off("0"), Some(None));
        assert_eq!(ms_or_off("5"), Some(Some(Duration::from_millis(5))));
        for text in ["0", "", "-1", "1s", "31536000001"] {
            assert_eq!(ms(text), None, "{text}");
        }
    }
}

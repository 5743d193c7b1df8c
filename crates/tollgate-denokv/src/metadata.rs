//! The response of the metadata exchange: the endpoint of the data path, its token and the expiry.

use serde_json::Value;
use tollgate_core::{Code, Error, Micros, Result};

use crate::date::seconds_of;
use crate::url::resolve;

/// The request: the versions of the protocol that this client supports.
pub(crate) const REQUEST: &str = r#"{"supportedVersions":[2,3]}"#;
const SECOND: i64 = 1_000_000;

/// The response, checked.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// The version of the protocol to use.
    pub(crate) version: u64,
    pub(crate) database: String,
    /// The URL of the strongly consistent data path.
    pub(crate) endpoint: String,
    pub(crate) token: String,
    /// The token is invalid from this instant on.
    pub(crate) expires: Micros,
}

impl Metadata {
    /// Parses the response of the server at `base`.
    ///
    /// # Errors
    /// `store_unavailable` when it is malformed or has no strongly consistent endpoint.
    pub(crate) fn parse(base: &str, body: &[u8]) -> Result<Self> {
        let reply: Value = serde_json::from_slice(body).map_err(|_| malformed("is not JSON"))?;
        let text = |name: &'static str| {
            let text = reply.get(name).and_then(Value::as_str);
            text.ok_or_else(|| malformed(format!("lacks the text `{name}`")))
        };
        let version = reply.get("version").and_then(Value::as_u64);
        let version = version.filter(|version| matches!(version, 2 | 3));
        let endpoints = reply.get("endpoints").and_then(Value::as_array);
        let strong = endpoints
            .into_iter()
            .flatten()
            .find(|endpoint| endpoint.get("consistency").and_then(Value::as_str) == Some("strong"));
        let url = strong.and_then(|endpoint| endpoint.get("url")).and_then(Value::as_str);
        let url = url.ok_or_else(|| malformed("has no strongly consistent endpoint"))?;
        let expires =
            seconds_of(text("expiresAt")?).ok_or_else(|| malformed("has no date `expiresAt`"))?;
        Ok(Self {
            version: version.ok_or_else(|| malformed("has a version other than 2 and 3"))?,
            database: text("databaseId")?.to_owned(),
            endpoint: resolve(base, url).trim_end_matches('/').to_owned(),
            token: text("token")?.to_owned(),
            expires: u64::try_from(expires.saturating_mul(SECOND)).unwrap_or_default(),
        })
    }
}

fn malformed(what: impl Into<String>) -> Error {
    let message = format!("the metadata of the Deno KV server {}", what.into());
    Error::new(Code::StoreUnavailable, message).not_sent()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str = r#"{"version":3,"databaseId":"d","endpoints":[
        {"url":"/eventual","consistency":"eventual"},{"url":"/v2/","consistency":"strong"}],
        "token":"t","expiresAt":"1970-01-01T00:00:07Z","more":1}"#;

    #[test]
    fn the_strong_endpoint_is_chosen() {
        let metadata = Metadata::parse("http://h:1/db", REPLY.as_bytes()).unwrap();
        let expected = Metadata {
            version: 3,
            database: "d".into(),
            endpoint: "http://h:1/v2".into(),
            token: "t".into(),
            expires: 7_000_000,
        };
        assert!(metadata == expected);
    }

    #[test]
    fn malformed_metadata_is_refused() {
        for (whole, broken) in [
            (r#""version":3"#, r#""version":1"#),
            (r#""version":3"#, r#""version":"3""#),
            ("strong", "weak"),
            ("databaseId", "database"),
            (r#""token":"t""#, r#""token":5"#),
            ("1970-01-01T00:00:07Z", "tomorrow"),
            ("{", ""),
        ] {
            let reply = REPLY.replacen(whole, broken, 1);
            let error = Metadata::parse("http://h", reply.as_bytes()).map(|_| ()).unwrap_err();
            assert_eq!(error.code(), Code::StoreUnavailable, "{reply}");
        }
    }
}

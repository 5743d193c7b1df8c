//! The OpenAPI document and the pages name every endpoint, and no header that is not there.

use std::collections::BTreeSet;

use serde_json::Value;
use tollgate_http::names::{DRAFT_06, RATELIMIT_POLICY, X_RATELIMIT};
use tollgate_service::api::{Endpoint, OPENAPI};

use crate::support::pages;

#[test]
fn every_endpoint_is_documented() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let page = include_str!("../../../../docs/protocols.md");
    for endpoint in Endpoint::ALL {
        let path = endpoint.path();
        let methods: BTreeSet<String> = endpoint
            .methods()
            .split(',')
            .filter(|one| *one != "HEAD")
            .map(str::to_lowercase)
            .collect();
        let documented = document["paths"][path].as_object();
        let documented = documented.into_iter().flat_map(|operations| operations.keys().cloned());
        let documented: BTreeSet<String> = documented.filter(|key| key != "parameters").collect();
        assert_eq!(documented, methods, "crates/tollgate-service/src/api/openapi.json, {path}");
        assert!(page.contains(path), "docs/protocols.md does not describe {path}");
    }
}

#[test]
fn pages_name_only_headers_that_exist() {
    let known = [&[RATELIMIT_POLICY][..], &DRAFT_06, &X_RATELIMIT].concat();
    let mut unknown = Vec::new();
    for (page, text) in pages() {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        for word in words.map(str::to_lowercase) {
            let is_field = word.starts_with("ratelimit-") || word.starts_with("x-ratelimit-");
            if is_field && known.iter().all(|name| name.as_str() != word) {
                unknown.push(format!("{} names {word}", page.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

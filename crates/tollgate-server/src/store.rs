//! A store from its address. One line per store: the scheme, and what opens it.

use std::future::ready;

use tollgate::redis::RedisStore;
use tollgate::store::{BoxStore, Memory};
use tollgate::{BoxFuture, Error, Result};

use crate::config::Retries;

/// Opens a store; the address is whole, its scheme included.
type Open = for<'a> fn(&'a str, &'a Retries) -> BoxFuture<'a, Result<BoxStore>>;

/// Every store that can be opened, by scheme.
const STORES: &[(&str, Open)] = &[
    ("memory", |address, _| Box::pin(ready(memory(address)))),
    ("redis", |address, _| Box::pin(ready(redis(address)))),
    ("rediss", |address, _| Box::pin(ready(redis(address)))),
    ("redis-cluster", |address, _| Box::pin(ready(redis(address)))),
    ("redis-sentinel", |address, _| Box::pin(ready(redis(address)))),
];

/// Opens the store of an address such as `memory:`.
///
/// # Errors
/// `config_invalid` naming `store` when no store has that scheme; what the store says when it cannot
/// be opened. No error holds the address: it may hold a password.
pub async fn open(address: &str, retries: &Retries) -> Result<BoxStore> {
    match STORES.iter().find(|(scheme, _)| scheme_of(address) == Some(*scheme)) {
        Some((_, open)) => open(address, retries).await,
        None => Err(Error::config("store", format!("has no scheme that is known; {}", accepted()))),
    }
}

/// The scheme of an address, which names the store.
#[must_use]
pub fn scheme_of(address: &str) -> Option<&str> {
    address.split_once(':').map(|(scheme, _)| scheme)
}

fn accepted() -> String {
    let schemes: Vec<&str> = STORES.iter().map(|(scheme, _)| *scheme).collect();
    format!("accepted: {}:", schemes.join(":, "))
}

/// Redis alone, with TLS, as a cluster or behind sentinels; it connects when it is first asked.
fn redis(address: &str) -> Result<BoxStore> {
    Ok(BoxStore::new(RedisStore::open(address)?))
}

/// `memory:`, with nothing behind the colon.
fn memory(address: &str) -> Result<BoxStore> {
    match address.strip_prefix("memory:") {
        Some("") => Ok(BoxStore::new(Memory::builder().build()?)),
        _ => Err(Error::config("store", "takes nothing after `memory:`")),
    }
}

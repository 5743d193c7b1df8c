//! Reads with versionstamps and atomic writes that check them, for the adapter of the core.
//!
//! A write that the server refused because its token has expired is sent once more. A write whose
//! outcome is unknown is never repeated.

use std::sync::Arc;

use prost::Message;
use tollgate_core::store::CallLimit;
use tollgate_core::store::cas::{Entry, Snapshot, Swap, Version, Versioned, VersionedCapability};
use tollgate_core::{Code, Error, Micros, Result};
use tollgate_net::http::{Endpoint, Post};

use crate::key::{after, encode};
use crate::session::{Session, Sessions, status_error};
use crate::wire::{
    AtomicWrite, AtomicWriteOutput, Check, ENCODING_BYTES, KvEntry, KvValue, MUTATION_SET,
    Mutation, READ_SUCCESS, ReadRange, SnapshotRead, SnapshotReadOutput, WRITE_CHECK_FAILURE,
    WRITE_DISABLED, WRITE_SUCCESS,
};

/// The largest number of ranges in a read and of checks in a write.
const KEYS_MAX: usize = 10;
const KEYS_PER_SWAP: u32 = 10;
/// The longest value that the server stores.
const VALUE_MAX_BYTES: u32 = 65_536;
const MICROS_PER_MS: Micros = 1_000;

/// The database.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) reclaims: bool,
}

impl Backend {
    /// Sends a request to an endpoint of the session, and once more if the token was refused.
    /// Returns the session that was used, and the body of the response.
    async fn send(
        &self,
        endpoint: fn(&Session) -> &Endpoint,
        body: Vec<u8>,
    ) -> Result<(Arc<Session>, Vec<u8>)> {
        let mut may_renew = true;
        loop {
            let session = self.sessions.current().await?;
            let post = Post {
                token: &session.token,
                content_type: "application/x-protobuf",
                headers: &session.headers,
                body: body.clone(),
            };
            let response = self.sessions.post(endpoint(&session), post).await?;
            match response.status {
                200 => {
                    session.accepted();
                    return Ok((session, response.body));
                }
                // The server refused the request and did nothing.
                401 if core::mem::take(&mut may_renew) => self.sessions.discard(&session),
                _ => return Err(status_error(&response)),
            }
        }
    }

    async fn read_part(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Entry>>> {
        let ranges =
            keys.iter().map(|key| ReadRange { start: key.clone(), end: after(key), limit: 1 });
        let request = SnapshotRead { ranges: ranges.collect() };
        let (session, reply) = self.send(|session| &session.read, request.encode_to_vec()).await?;
        let output = SnapshotReadOutput::decode(&reply[..]).map_err(|_| malformed("a read"))?;
        let is_done = match session.version {
            2 => !output.read_disabled,
            _ => output.status == READ_SUCCESS,
        };
        if !is_done || !output.read_is_strongly_consistent {
            // The metadata may name another endpoint now.
            self.sessions.discard_endpoint(&session);
            let message = "the Deno KV server offers no consistent reads at the moment";
            return Err(Error::new(Code::StoreUnavailable, message));
        }
        if output.ranges.len() != keys.len() {
            return Err(malformed("a read"));
        }
        let found = output.ranges.into_iter().map(|range| range.values.into_iter().next());
        Ok(found.map(|found| found.as_ref().map(entry_of)).collect())
    }

    fn mutation(&self, key: Vec<u8>, swap: &Swap<'_>) -> Mutation {
        let keep_until_ms = swap.keep_until.div_ceil(MICROS_PER_MS);
        let expires = i64::try_from(keep_until_ms).ok().filter(|_| self.reclaims);
        Mutation {
            key,
            value: Some(KvValue { data: swap.value.into(), encoding: ENCODING_BYTES }),
            mutation_type: MUTATION_SET,
            expire_at_ms: expires.unwrap_or_default(),
        }
    }
}

impl Versioned for Backend {
    fn capability(&self) -> VersionedCapability {
        VersionedCapability::multi_key(KEYS_PER_SWAP).with_max_state_bytes(VALUE_MAX_BYTES)
    }

    async fn read(&self, keys: &[&str]) -> Result<Snapshot> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| encode(key)).collect::<Result<_>>()?;
        let mut entries = Vec::with_capacity(keys.len());
        for part in keys.chunks(KEYS_MAX) {
            entries.extend(self.read_part(part).await?);
        }
        Ok(Snapshot { entries, clock: None })
    }

    async fn swap(&self, writes: &[Swap<'_>]) -> Result<bool> {
        let mut request = AtomicWrite::default();
        for write in writes {
            let key = encode(write.key)?;
            let versionstamp = versionstamp_of(write.expect)?;
            request.checks.push(Check { key: key.clone(), versionstamp });
            request.mutations.push(self.mutation(key, write));
        }
        let (session, reply) = self.send(|session| &session.write, request.encode_to_vec()).await?;
        let output = AtomicWriteOutput::decode(&reply[..]).map_err(|_| malformed("a write"))?;
        match output.status {
            WRITE_SUCCESS => Ok(true),
            WRITE_CHECK_FAILURE => Ok(false),
            WRITE_DISABLED => {
                self.sessions.discard_endpoint(&session);
                let message = "the Deno KV server accepts no writes at the moment";
                Err(Error::new(Code::StoreUnavailable, message).not_sent())
            }
            _ => Err(malformed("a write")),
        }
    }

    fn call_limit(&self) -> Option<&CallLimit> {
        Some(self.sessions.pool.call_limit())
    }

    async fn close(&self) {
        self.sessions.pool.close();
    }
}

/// A value of another encoding becomes an empty text, which the adapter reports as `corrupt_state`.
fn entry_of(found: &KvEntry) -> Entry {
    let text = match found.encoding {
        ENCODING_BYTES => String::from_utf8_lossy(&found.value).into_owned(),
        _ => String::new(),
    };
    Entry { text, version: Version::Text(hex(&found.versionstamp).into()) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a versionstamp; empty for a key that does not exist.
fn versionstamp_of(version: Option<&Version>) -> Result<Vec<u8>> {
    let invalid = || Error::new(Code::CorruptState, "not a versionstamp of Deno KV").not_sent();
    let text = match version {
        None => return Ok(Vec::new()),
        Some(Version::Text(text)) => text,
        Some(Version::Number(_)) => return Err(invalid()),
    };
    let digits = text.as_bytes().chunks(2).map(|pair| {
        let pair = core::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    digits.collect::<Option<_>>().ok_or_else(invalid)
}

/// The response cannot be decoded: the outcome is unknown.
fn malformed(request: &str) -> Error {
    let message = format!("unexpected response of the Deno KV server to {request}");
    Error::new(Code::StoreUnavailable, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_versionstamp_survives_the_conversion() {
        let bytes = vec![0, 1, 2, 0x0a, 0xff, 5, 6, 7, 8, 9];
        let found = KvEntry { versionstamp: bytes.clone(), ..KvEntry::default() };
        let entry = entry_of(&found);
        assert_eq!(versionstamp_of(Some(&entry.version)).unwrap(), bytes);
        assert_eq!(entry.text, "", "a value of another encoding is no text");
        assert!(versionstamp_of(None).unwrap().is_empty());
        assert!(versionstamp_of(Some(&Version::Text("0g".into()))).is_err());
        assert!(versionstamp_of(Some(&Version::Number(1))).is_err());
    }
}

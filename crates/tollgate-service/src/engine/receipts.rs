//! Receipts in the engine: made for what was charged, opened for what is settled.

use std::sync::Arc;

use tollgate_core::store::Store as _;
use tollgate_core::{Decision, Error, Receipt};

use super::resolved::{ResolvedAdmission, ResolvedCharge};
use super::{CheckRequest, Engine, Result, Target};
use crate::receipt::{
    ChargedLimit, ChargedSubject, OpenedReceipt, ReceiptContent, ReceiptKey, ReceiptKeys,
};

impl Engine {
    /// Sets the key of receipts. Servers with the same key accept each other's.
    #[must_use]
    pub fn with_receipt_key(self, key: ReceiptKey) -> Self {
        self.receipts.store(Arc::new(ReceiptKeys::new(Some(key))));
        self
    }

    /// Makes receipts with another key from now on. Those of earlier charges stay valid, and stay
    /// the same under their request ids.
    pub fn replace_receipt_key(&self, key: &ReceiptKey) {
        let now_s = self.limiter.clock().now() / 1_000_000;
        self.receipts.rcu(|keys| keys.changed(key.clone(), now_s));
    }

    /// Reads a receipt of this service.
    pub(super) fn open(&self, text: &str) -> Result<OpenedReceipt> {
        let now_s = self.limiter.clock().now() / 1_000_000;
        let opened = self.receipts.load().open(text, now_s).ok_or_else(|| {
            let message = "is none of this service, which makes none without receipt_secret";
            Error::invalid("receipt", message)
        })?;
        Ok(opened?)
    }

    /// What proves charges, if the request asks for it and something was charged.
    ///
    /// Charges of policies in shadow mode beside others are in no receipt: they may be made at a
    /// replay only, and two receipts of one request would give back twice.
    pub(super) fn receipt_of(
        &self,
        request: &CheckRequest<'_>,
        resolved: &ResolvedAdmission<'_>,
        decision: &Decision,
    ) -> Option<String> {
        if !request.receipt && request.request_id.is_none() {
            return None;
        }
        let keys = self.receipts.load();
        // Without records of request ids a receipt could not be accepted once.
        if !self.limiter.store().capability().idempotent {
            return None;
        }
        let mut parts = decision.parts().iter();
        let subjects = resolved.requested().map(|charge| charged(charge, &mut parts));
        let subjects: Vec<ChargedSubject> = subjects.collect::<Option<_>>()?;
        let now = self.limiter.clock().now();
        let (nonce, charged_at_s) = match (request.request_id, decision.decided_at_s()) {
            // The same at every replay.
            (Some(id), Some(at_s)) => (keys.of_charge_at(at_s)?.nonce_of(id), at_s),
            // The rest is for hosts without randomness, where processes share their numbers.
            _ => (self.nonces.next() ^ now ^ decision.remaining.rotate_left(32), now / 1_000_000),
        };
        let first = resolved.first.policy.limits().next()?;
        let valid_for_s = first.bounds().request_ids_are_kept_for().as_secs();
        keys.seal(&ReceiptContent { charged_at_s, valid_for_s, nonce, subjects })
    }
}

/// What was charged to one key, by the decisions of its limits, which are the next ones.
fn charged<'d>(
    charge: &ResolvedCharge<'_>,
    parts: &mut impl Iterator<Item = &'d Decision>,
) -> Option<ChargedSubject> {
    let Target::Policy(policy) = charge.requested.target else { return None };
    let limits = charge.policy.limit_names().map(|name| {
        let part = parts.next()?;
        let Receipt::Until(until) = part.receipt()? else { return None };
        let (name, units) = (name.to_string(), part.granted().unwrap_or(charge.requested.cost));
        Some(ChargedLimit { name, units, until_ms: until / 1_000 })
    });
    let limits: Vec<ChargedLimit> = limits.collect::<Option<_>>()?;
    let (policy, key) = (policy.to_owned(), charge.requested.key.to_owned());
    (!limits.is_empty()).then_some(ChargedSubject { policy, key, limits })
}

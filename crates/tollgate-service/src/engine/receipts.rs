//! Receipts in the engine: made for what was charged, accepted for what is given back.
//!
//! A refund by a receipt is an admission under a request id of that receipt. So the records of
//! request ids, which every store writes in the same act as the states, make it happen once.

use tollgate_core::store::Store as _;
use tollgate_core::{Admission, Cost, Decision, Error, Name, Receipt, RequestId};

use super::decide::admission;
use super::resolved::{ResolvedAdmission, ResolvedCharge};
use super::{CheckRequest, Engine, RefundRequest, RefundResponse, RequestedCharge, Result, Target};
use crate::auth::Role;
use crate::policy::{Policies, Refunds, ResolvedPolicy};
use crate::receipt::{ChargedLimit, ChargedSubject, OpenedReceipt, ReceiptContent, ReceiptKey};

impl Engine {
    /// Sets the key of receipts. Servers with the same key accept each other's.
    #[must_use]
    pub fn with_receipt_key(mut self, key: ReceiptKey) -> Self {
        self.receipts = Some(key);
        self
    }

    /// Gives back at most what was charged and is still counted.
    ///
    /// A receipt gives back once, however often it is sent: further responses are the same, and
    /// marked as replayed.
    ///
    /// # Errors
    /// `forbidden` when the policy does not accept refunds of this role; when the request is
    /// invalid, or the store cannot answer.
    pub async fn refund(&self, request: RefundRequest<'_>, role: Role) -> Result<RefundResponse> {
        let policies = self.policies.load_full();
        let wanted = match request {
            RefundRequest::Receipt(text) => self.open(text).map(Wanted::Proven),
            RefundRequest::Units { charge, request_id } => Ok(Wanted::Units(charge, request_id)),
        };
        let subjects = match &wanted {
            Ok(wanted) => wanted.subjects(&policies),
            Err(failure) => Err(failure.clone()),
        };
        let named = subjects.as_ref().ok().and_then(|subjects| subjects.first());
        let named = named.map(|subject| (subject.resolved.name(), subject.key));
        let result = match (&wanted, &subjects) {
            (Ok(wanted), Ok(subjects)) => self.give_back(wanted, subjects, role).await,
            (Err(failure), _) | (_, Err(failure)) => Err(failure.clone()),
        };
        self.observer.refunded(named, &result);
        result
    }

    async fn give_back(
        &self,
        wanted: &Wanted<'_>,
        subjects: &[Subject<'_>],
        role: Role,
    ) -> Result<RefundResponse> {
        let has_receipt = matches!(wanted, Wanted::Proven(_));
        let mut charges = Vec::new();
        for subject in subjects {
            subject.refunds.permit(role, has_receipt)?;
            for (name, units, mark) in &subject.limits {
                let charge = subject.resolved.charge_on(name).ok_or_else(no_longer_known)?;
                charges.push(charge.cost(*units).refund(*mark));
            }
        }
        let admission = match wanted {
            Wanted::Proven(opened) => Admission::of(&charges).request_id(opened.once()?),
            Wanted::Units(_, id) => admission(&charges, id.map(RequestId::new).transpose()?),
        };
        let refunded = self.limiter.refund(admission).await?;
        let policy = subjects.first().ok_or_else(no_longer_known)?.resolved.name().clone();
        let names = subjects.iter().flat_map(|subject| &subject.limits);
        let units = refunded.each.iter().copied().max().unwrap_or(0);
        let limits = names.map(|(name, ..)| (*name).to_owned()).zip(refunded.each).collect();
        Ok(RefundResponse { policy, units, limits, standing: refunded.standing })
    }

    fn open(&self, text: &str) -> Result<OpenedReceipt> {
        let key = self.receipts.as_ref().ok_or_else(|| {
            let message = "is none of this service, which makes none without receipt_secret";
            Error::invalid("receipt", message)
        })?;
        Ok(key.open(text, self.limiter.clock().now() / 1_000_000)?)
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
        let key = self.receipts.as_ref()?;
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
            (Some(id), Some(at_s)) => (key.nonce_of(id), at_s),
            // The rest is for hosts without randomness, where processes share their numbers.
            _ => (self.nonces.next() ^ now ^ decision.remaining.rotate_left(32), now / 1_000_000),
        };
        Some(key.seal(&ReceiptContent { charged_at_s, nonce, subjects }))
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

/// What is to be given back.
enum Wanted<'a> {
    /// What a receipt proves.
    Proven(OpenedReceipt),
    /// The newest units of a key.
    Units(RequestedCharge<'a>, Option<&'a str>),
}

/// A key of a refund.
struct Subject<'a> {
    refunds: Refunds,
    resolved: ResolvedPolicy<'a>,
    key: &'a str,
    /// The name of each limit, the units to give back, and which.
    limits: Vec<(&'a str, Cost, Receipt)>,
}

impl Wanted<'_> {
    /// The keys, as the policies have them.
    fn subjects<'a>(&'a self, policies: &'a Policies) -> Result<Vec<Subject<'a>>> {
        match self {
            Self::Units(charge, _) => {
                let resolved = ResolvedCharge::of(policies, *charge)?.policy;
                let refunds = policies.find(resolved.name().as_str())?.refunds();
                let newest = |name: &'a Name| (name.as_str(), charge.cost, Receipt::Newest);
                let limits = resolved.limit_names().map(newest).collect();
                Ok(vec![Subject { refunds, resolved, key: charge.key, limits }])
            }
            Self::Proven(opened) => {
                let subjects = opened.content.subjects.iter().map(|charged| {
                    let policy = policies.find(&charged.policy).map_err(|_| no_longer_known())?;
                    let of = |limit: &'a ChargedLimit| (&*limit.name, limit.units, limit.mark());
                    Ok(Subject {
                        refunds: policy.refunds(),
                        resolved: policy.resolve(&charged.key),
                        key: &charged.key,
                        limits: charged.limits.iter().map(of).collect(),
                    })
                });
                subjects.collect()
            }
        }
    }
}

fn no_longer_known() -> Error {
    let message = "is for a limit that no policy has here; accepted: receipts of current limits";
    Error::invalid("receipt", message)
}

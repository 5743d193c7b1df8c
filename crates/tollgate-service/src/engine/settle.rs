//! Settlements in the engine: the final costs of the charges that a receipt proves, and refunds.
//!
//! What uses a receipt is one admission of all of its charges, under a request id of that receipt.
//! So the records of request ids, which every store writes in the same act as the states, make it
//! happen once, be it a settlement or a refund; and another cost later is a conflict.

use tollgate_core::{Admission, Charge, Cost, Error, Name, Receipt, RequestId};

use super::decide::admission;
use super::resolved::ResolvedCharge;
use super::response::SettledLimit;
use super::{
    Engine, EngineObserver, FinalCosts, RefundRequest, RequestedCharge, Result, SettleRequest,
    SettleResponse,
};
use crate::auth::{Rights, Scope};
use crate::policy::{LimitName, Policies, Refunds, ResolvedPolicy};
use crate::receipt::{ChargedSubject, OpenedReceipt};

/// Reports what came of a request: its first key, if it has one, and the result.
type Report = fn(&dyn EngineObserver, Option<(&Name, &str)>, &Result<SettleResponse>);

impl Engine {
    /// Sets the final costs of the charges that a receipt proves. Less than was charged gives back
    /// what is still counted; more is charged even into debt, up to the largest debt of the limit.
    ///
    /// A receipt settles once, however often it is sent: further responses are the same, and marked
    /// as replayed.
    ///
    /// # Errors
    /// `forbidden` when the client may not use a policy of the receipt, or less was used than
    /// charged and the policy accepts no refunds of its role; `idempotency_conflict` when the
    /// receipt has settled for other costs; when the request is invalid, or the store cannot
    /// answer.
    pub async fn settle(
        &self,
        request: SettleRequest<'_>,
        rights: &Rights,
    ) -> Result<SettleResponse> {
        let wanted = self.proven(request.receipt, request.costs, &rights.policies);
        self.finish(wanted, rights, |observer, of, result| observer.settled(of, result)).await
    }

    /// Gives back at most what was charged and is still counted. With a receipt it is a settlement
    /// for 0 units.
    ///
    /// # Errors
    /// As [`Engine::settle`]; `forbidden` also for callers without a receipt.
    pub async fn refund(
        &self,
        request: RefundRequest<'_>,
        rights: &Rights,
    ) -> Result<SettleResponse> {
        let wanted = match request {
            RefundRequest::Receipt(text) => {
                self.proven(text, FinalCosts::Every(0), &rights.policies)
            }
            RefundRequest::Units { charge, request_id } => Ok(Wanted::Units(charge, request_id)),
        };
        self.finish(wanted, rights, |observer, of, result| observer.refunded(of, result)).await
    }

    /// The charges of a receipt, with their final costs, if all of them are within a scope.
    fn proven(
        &self,
        receipt: &str,
        costs: FinalCosts<'_>,
        scope: &Scope,
    ) -> Result<Wanted<'static>> {
        let opened = self.open(receipt)?;
        opened.content.subjects.iter().try_for_each(|subject| scope.permit(&subject.policy))?;
        let costs = costs.each(&opened.content.charges().collect::<Vec<_>>())?;
        Ok(Wanted::Proven(opened, costs))
    }

    /// Settles, and reports the first key and the result.
    async fn finish(
        &self,
        wanted: Result<Wanted<'_>>,
        rights: &Rights,
        report: Report,
    ) -> Result<SettleResponse> {
        let policies = self.policies.load_full();
        let subjects = match &wanted {
            Ok(wanted) => wanted.subjects(&policies, &rights.policies),
            Err(failure) => Err(failure.clone()),
        };
        let named = subjects.as_ref().ok().and_then(|subjects| subjects.first());
        let named = named.map(|subject| (subject.resolved.name(), subject.key));
        let result = match (&wanted, &subjects) {
            (Ok(wanted), Ok(subjects)) => self.apply(wanted, subjects, rights).await,
            (Err(failure), _) | (_, Err(failure)) => Err(failure.clone()),
        };
        report(&*self.observer, named, &result);
        result
    }

    async fn apply(
        &self,
        wanted: &Wanted<'_>,
        subjects: &[Subject<'_>],
        rights: &Rights,
    ) -> Result<SettleResponse> {
        let has_receipt = matches!(wanted, Wanted::Proven(..));
        let (mut charges, mut names) = (Vec::new(), Vec::new());
        for subject in subjects {
            if subject.limits.iter().any(Final::gives_back) {
                subject.refunds.permit(rights, has_receipt)?;
            }
            let policy = subject.resolved.name();
            for of in &subject.limits {
                let (name, charge) = subject.resolved.charge_on(of.name).ok_or_else(unknown)?;
                charges.push(of.charge(charge));
                names.push(LimitName { policy: policy.clone(), name: name.clone() });
            }
        }
        let admission = match wanted {
            Wanted::Proven(opened, _) => Admission::of(&charges).request_id(opened.once()?),
            Wanted::Units(_, id) => admission(&charges, id.map(RequestId::new).transpose()?),
        };
        let settled = self.limiter.settle(admission).await?;
        let policy = subjects.first().ok_or_else(unknown)?.resolved.name().clone();
        let limits = names.into_iter().zip(settled.each).map(|(name, each)| SettledLimit {
            name,
            refunded: each.given_back,
            charged: each.charged,
            dropped: each.dropped,
        });
        Ok(SettleResponse { policy, limits: limits.collect(), standing: settled.standing })
    }
}

/// What is to be settled.
enum Wanted<'a> {
    /// The charges of a receipt, with the final cost of each.
    Proven(OpenedReceipt, Vec<u64>),
    /// The newest units of a key, which are given back.
    Units(RequestedCharge<'a>, Option<&'a str>),
}

/// A key, with its charges.
struct Subject<'a> {
    refunds: Refunds,
    resolved: ResolvedPolicy<'a>,
    key: &'a str,
    limits: Vec<Final<'a>>,
}

/// A charge, with its final cost.
struct Final<'a> {
    name: &'a str,
    charged: Cost,
    receipt: Receipt,
    cost: u64,
}

impl Final<'_> {
    const fn gives_back(&self) -> bool {
        self.cost < self.charged.get()
    }

    fn charge<'c>(&self, charge: Charge<'c>) -> Charge<'c> {
        charge.cost(self.charged).settle(self.receipt, self.cost)
    }
}

impl Wanted<'_> {
    /// The keys, as the policies have them.
    fn subjects<'a>(&'a self, policies: &'a Policies, scope: &Scope) -> Result<Vec<Subject<'a>>> {
        match self {
            Self::Units(charge, _) => {
                let resolved = ResolvedCharge::of(policies, *charge, scope)?.policy;
                let refunds = policies.find(resolved.name().as_str())?.refunds();
                let (charged, receipt) = (charge.cost, Receipt::Newest);
                let newest =
                    |name: &'a Name| Final { name: name.as_str(), charged, receipt, cost: 0 };
                let limits = resolved.limit_names().map(newest).collect();
                Ok(vec![Subject { refunds, resolved, key: charge.key, limits }])
            }
            Self::Proven(opened, costs) => {
                let mut costs = costs.iter().copied();
                let subjects = opened.content.subjects.iter();
                subjects.map(|charged| Subject::of(charged, &mut costs, policies)).collect()
            }
        }
    }
}

impl<'a> Subject<'a> {
    /// A key of a receipt, with the next of these final costs.
    fn of(
        subject: &'a ChargedSubject,
        costs: &mut impl Iterator<Item = u64>,
        policies: &'a Policies,
    ) -> Result<Self> {
        let policy = policies.find(&subject.policy).map_err(|_| unknown())?;
        let limits = subject.limits.iter().zip(costs).map(|(limit, cost)| Final {
            name: &limit.name,
            charged: limit.units,
            receipt: limit.mark(),
            cost,
        });
        let (key, limits) = (&*subject.key, limits.collect());
        Ok(Self { refunds: policy.refunds(), resolved: policy.resolve(key), key, limits })
    }
}

fn unknown() -> Error {
    let message = "is for a limit that no policy has here; accepted: receipts of current limits";
    Error::invalid("receipt", message)
}

//! The input of a store: charges on keys, all or nothing, perhaps under a request id.

use core::time::Duration;

use crate::cost::Cost;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::limit::Limit;
use crate::rule::Rule;
use crate::state::State;
use crate::time::{Micros, Now, micros_of};

/// The longest request id accepted, in bytes.
const REQUEST_ID_MAX_BYTES: usize = 64;

/// What a charge does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Takes units, if there are enough.
    Take,
    /// Takes as many units as there are: at least the cost, and at most this many.
    TakeUpTo(Cost),
    /// Sets the final cost of an earlier charge, which took the cost.
    Settle {
        /// Which charge.
        receipt: Receipt,
        /// The units that it costs in the end. Fewer than the cost: the rest is given back, as far
        /// as it is still counted. More: the rest is charged, beyond the ceiling too, as far as the
        /// [debt](Limit::max_debt) goes.
        to: u64,
    },
}

impl Operation {
    /// Whether units are taken: exactly the cost, or a range from it.
    #[must_use]
    pub const fn takes(self) -> bool {
        matches!(self, Self::Take | Self::TakeUpTo(_))
    }
}

/// Which charge is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Receipt {
    /// The charge that left the key fresh again at this instant, in microseconds: a thousand times
    /// the `reset_at_ms` of its decision.
    ///
    /// Units of that charge which time has given back already are not given back twice.
    Until(Micros),
    /// The newest units of the key, when the charge is not known.
    Newest,
}

/// Units asked for on one key under one limit. Made by [`Limit::charge`].
///
/// ```
/// use tollgate_core::{Cost, Limit, Limiter, Quota};
///
/// let api = Limit::gcra("api", Quota::per_minute(100))?;
/// let decision = Limiter::in_memory().sync().check(api.charge("ada").cost(Cost::new(40)?))?;
/// assert_eq!(decision.remaining, 60);
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Charge<'a> {
    /// The limit that decides.
    pub limit: &'a Limit,
    /// Who or what is limited: any text.
    pub subject: &'a str,
    /// Units asked for; of a range the fewest that are of use.
    pub cost: Cost,
    /// Whether units are taken, or an earlier charge is settled.
    pub operation: Operation,
}

impl<'a> Charge<'a> {
    /// The same charge for another number of units.
    #[must_use]
    #[inline]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// The same charge for as many units as there are: at least its cost, and at most `max`. A
    /// `max` below the cost means the cost. [`Decision::granted`](crate::Decision::granted) says
    /// how many were taken.
    ///
    /// All ranges of an admission are granted the same number of units, each as far as its own
    /// range goes: the largest number with which every charge is allowed. If not even the least is,
    /// the denial is that of the costs.
    ///
    /// ```
    /// use tollgate_core::{Cost, Limit, Limiter, Quota};
    ///
    /// let jobs = Limit::gcra("jobs", Quota::per_minute(7))?;
    /// let batch = jobs.charge("ada").up_to(Cost::new(10)?);
    /// let decision = Limiter::in_memory().sync().check(batch)?;
    /// assert_eq!(decision.granted(), Some(Cost::new(7)?));
    /// # Ok::<(), tollgate_core::Error>(())
    /// ```
    #[must_use]
    pub const fn up_to(mut self, max: Cost) -> Self {
        self.operation = Operation::TakeUpTo(max);
        self
    }

    /// The fewest and the most units of a range; absent for other charges.
    #[must_use]
    pub fn range(&self) -> Option<(Cost, Cost)> {
        match self.operation {
            Operation::TakeUpTo(max) => Some((self.cost, max.max(self.cost))),
            Operation::Take | Operation::Settle { .. } => None,
        }
    }

    /// The charge that takes exactly these units, as far as the range goes; other charges as they
    /// are.
    pub(crate) fn exactly(mut self, units: Cost) -> Self {
        if let Some((min, max)) = self.range() {
            self.cost = units.clamp(min, max);
            self.operation = Operation::Take;
        }
        self
    }

    /// The text of the units, as a request id is bound to them.
    fn amount(&self) -> String {
        match (self.range(), self.operation) {
            (Some((min, max)), _) => format!("{min}..{max}"),
            (None, Operation::Settle { to: to @ 1.., .. }) => format!("{}>{to}", self.cost),
            (None, _) => self.cost.to_string(),
        }
    }

    /// Sets the final cost of this charge. The cost is what was charged: of a range what was
    /// granted.
    ///
    /// ```
    /// use tollgate_core::{Cost, Limit, Limiter, Quota};
    ///
    /// let limiter = Limiter::in_memory();
    /// let tokens = Limit::fixed_window("tokens", Quota::per_day(1_000))?;
    /// let reserved = tokens.charge("ada").cost(Cost::new(400)?);
    /// let decision = limiter.sync().check(reserved)?;
    /// let receipt = decision.receipt().expect("the charge was allowed");
    ///
    /// let settled = limiter.sync().settle(reserved.settle(receipt, 1_100))?;
    /// assert_eq!(settled.each[0].charged, 700);
    /// assert_eq!(settled.standing.remaining, 0);
    /// # Ok::<(), tollgate_core::Error>(())
    /// ```
    #[must_use]
    pub const fn settle(mut self, receipt: Receipt, to: u64) -> Self {
        self.operation = Operation::Settle { receipt, to };
        self
    }

    /// The refund of this charge: its final cost is 0.
    #[must_use]
    pub const fn refund(self, receipt: Receipt) -> Self {
        self.settle(receipt, 0)
    }

    /// The same charge under another limit.
    #[must_use]
    pub const fn under(mut self, limit: &'a Limit) -> Self {
        self.limit = limit;
        self
    }

    /// An admission of this charge alone, charged at most once.
    #[must_use]
    pub fn request_id(self, request_id: RequestId<'a>) -> Admission<'a> {
        Admission::from(self).request_id(request_id)
    }

    /// The key that is charged.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Key<'a> {
        self.limit.key(self.subject)
    }

    /// The algorithm that decides.
    #[must_use]
    #[inline]
    pub fn rule(&self) -> &'a Rule {
        self.limit.rule()
    }

    /// What the record of a request id keeps of the state before this charge, which was granted at
    /// `now`: enough to derive the same decision again, and no more. For a settlement it matters
    /// which charges the key has.
    #[must_use]
    pub fn evidence(&self, before: &State, now: Now) -> State {
        let same_family = before.quota_id.family() == self.rule().quota_id().family();
        if !self.operation.takes() || !same_family || !before.others.is_empty() {
            return before.clone();
        }
        State::new(before.quota_id, self.rule().evidence(&before.words, now))
    }
}

/// Marks an admission that must be charged at most once, however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestId<'a> {
    /// The request id: 1 to 64 bytes, scoped to the key of the first charge.
    pub id: &'a str,
    /// How long the record is kept, in microseconds.
    pub keep: Micros,
}

impl<'a> RequestId<'a> {
    /// How long records are kept by default: five minutes.
    pub const DEFAULT_KEEP: Micros = 300_000_000;

    /// A request id, kept for five minutes.
    ///
    /// # Errors
    /// `invalid_request` naming the field `request_id` when it is empty or too long.
    pub fn new(id: &'a str) -> Result<Self> {
        if id.is_empty() || id.len() > REQUEST_ID_MAX_BYTES {
            let accepted = format!("has {} bytes; accepted: 1 to {REQUEST_ID_MAX_BYTES}", id.len());
            return Err(Error::invalid("request_id", accepted));
        }
        Ok(Self { id, keep: Self::DEFAULT_KEEP })
    }

    /// The same id, kept for another time.
    #[must_use]
    pub fn keep_for(mut self, keep: Duration) -> Self {
        self.keep = micros_of(keep);
        self
    }
}

/// One or several charges, all or nothing: either every key is charged or none is.
///
/// Every verb of the [`Limiter`](crate::Limiter) takes anything that becomes one: a charge, a
/// slice, array or vector of charges, or an admission with a request id.
///
/// ```
/// use tollgate_core::{Admission, Limit, Limiter, Quota, RequestId};
///
/// let limiter = Limiter::in_memory();
/// let per_user = Limit::gcra("user", Quota::per_minute(10))?;
/// let per_address = Limit::sliding_log("address", Quota::per_minute(50))?;
/// let charges = [per_user.charge("ada"), per_address.charge("192.0.2.7")];
///
/// assert!(limiter.sync().check(&charges)?.is_allowed());
/// let once = Admission::of(&charges).request_id(RequestId::new("6f1c")?);
/// assert_eq!(limiter.sync().check(once)?, limiter.sync().check(once)?);
/// # Ok::<(), tollgate_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Admission<'a> {
    charges: Charges<'a>,
    /// The request id, if the admission must be charged at most once.
    pub request_id: Option<RequestId<'a>>,
}

/// One charge is kept in place, so that it can be passed by value.
#[derive(Clone, Copy, Debug)]
enum Charges<'a> {
    One([Charge<'a>; 1]),
    Listed(&'a [Charge<'a>]),
}

impl<'a> Admission<'a> {
    /// An admission of these charges.
    #[must_use]
    pub const fn of(charges: &'a [Charge<'a>]) -> Self {
        Self { charges: Charges::Listed(charges), request_id: None }
    }

    /// The same admission, charged at most once.
    #[must_use]
    pub const fn request_id(mut self, request_id: RequestId<'a>) -> Self {
        self.request_id = Some(request_id);
        self
    }

    /// The same admission of other charges.
    #[must_use]
    pub const fn with_charges(mut self, charges: &'a [Charge<'a>]) -> Self {
        self.charges = Charges::Listed(charges);
        self
    }

    /// The charges, in the order in which they are applied.
    #[must_use]
    #[inline]
    pub const fn charges(&self) -> &[Charge<'a>] {
        match &self.charges {
            Charges::One(one) => one,
            Charges::Listed(charges) => charges,
        }
    }

    /// Whether an earlier charge is settled. A store must not forget the record of such a request
    /// id early: the settlement could be made again.
    #[must_use]
    pub fn is_settlement(&self) -> bool {
        self.charges().iter().any(|charge| !charge.operation.takes())
    }

    /// The charge of an admission that is nothing more: one charge without a request id. Copied,
    /// so that the compiler need not build the admission around it.
    #[inline]
    pub(crate) const fn single_charge(&self) -> Option<Charge<'a>> {
        match (self.charges(), &self.request_id) {
            ([charge], None) => Some(*charge),
            _ => None,
        }
    }

    /// What a request id is bound to: the same id with another payload is a conflict.
    ///
    /// The cost or range alone for one charge, since the record is scoped to the key already; for
    /// several, the text of every key with its cost.
    #[must_use]
    pub fn payload(&self) -> String {
        match self.charges() {
            [charge] if charge.operation.takes() => charge.amount(),
            several => several.iter().fold(String::new(), |mut text, charge| {
                charge.key().write_to(&mut text);
                // Settling under the id of the charge is another request.
                text.push(if charge.operation.takes() { '=' } else { '-' });
                text.push_str(&charge.amount());
                text.push(';');
                text
            }),
        }
    }
}

impl<'a> From<Charge<'a>> for Admission<'a> {
    #[inline]
    fn from(charge: Charge<'a>) -> Self {
        Self { charges: Charges::One([charge]), request_id: None }
    }
}

impl<'a> From<&Charge<'a>> for Admission<'a> {
    #[inline]
    fn from(charge: &Charge<'a>) -> Self {
        Self::from(*charge)
    }
}

impl<'a> From<&'a [Charge<'a>]> for Admission<'a> {
    fn from(charges: &'a [Charge<'a>]) -> Self {
        Self::of(charges)
    }
}

impl<'a, const N: usize> From<&'a [Charge<'a>; N]> for Admission<'a> {
    fn from(charges: &'a [Charge<'a>; N]) -> Self {
        Self::of(charges)
    }
}

impl<'a> From<&'a Vec<Charge<'a>>> for Admission<'a> {
    fn from(charges: &'a Vec<Charge<'a>>) -> Self {
        Self::of(charges)
    }
}

impl<'a> From<&Self> for Admission<'a> {
    fn from(admission: &Self) -> Self {
        *admission
    }
}

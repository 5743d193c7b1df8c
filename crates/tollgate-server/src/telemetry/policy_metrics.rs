//! The counters of decisions, policy by policy. Their handles are found once for each policy: a
//! decision looks up the name of its policy, and takes no lock.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use tollgate::{Cost, Limit, Name, OutageMode, Verdict};
use tollgate_service::Policies;
use tollgate_service::engine::{CheckRequest, CheckResponse, RequestedCharge, Target};
use tollgate_service::policy::AD_HOC_POLICY;

use super::metrics::Registration;
use super::sharded::Counter;

/// Every verdict, every outage mode beside none, and shadow mode: the labels of a decision.
const VERDICTS: [Verdict; 3] = [Verdict::Allowed, Verdict::Denied, Verdict::Never];
const DEGRADED: [Option<OutageMode>; 4] =
    [None, Some(OutageMode::Open), Some(OutageMode::Closed), Some(OutageMode::Local)];
const CELLS: usize = VERDICTS.len() * DEGRADED.len() * 2;

/// What is decided.
#[derive(Clone, Debug, Default)]
struct Families {
    decisions: Family<DecisionLabels, Counter>,
    denials: Family<DenialLabels, Counter>,
    granted: Family<PolicyLabel, Counter>,
    replays: Family<PolicyLabel, Counter>,
}

/// The counters of all policies.
#[derive(Default)]
pub(super) struct PolicyMetrics {
    families: Families,
    by_name: ArcSwap<HashMap<Box<str>, Handles>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    policy: String,
    verdict: &'static str,
    degraded: &'static str,
    shadow: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DenialLabels {
    policy: String,
    limit: String,
    shadow: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct PolicyLabel {
    pub(super) policy: String,
}

/// The counters of one policy. A series that nothing raises an alert for begins with its first
/// event.
#[derive(Debug)]
struct Handles {
    policy: String,
    families: Families,
    decisions: [OnceLock<Counter>; CELLS],
    /// By the name of the limit; in shadow mode all are of the other list.
    denials: Vec<(Name, Counter)>,
    shadow_denials: Vec<(Name, Counter)>,
    granted: Counter,
    replays: OnceLock<Counter>,
}

/// The counters of a policy, or of one that is not in force any more.
enum OfPolicy<'a> {
    Known(&'a Handles),
    Removed(Box<Handles>),
}

impl Deref for OfPolicy<'_> {
    type Target = Handles;

    fn deref(&self) -> &Handles {
        match self {
            Self::Known(handles) => handles,
            Self::Removed(handles) => handles,
        }
    }
}

impl PolicyMetrics {
    pub(super) fn register(&self, register: &mut Registration<'_>) {
        let Families { decisions, denials, granted, replays } = &self.families;
        let labels = "`policy`, `verdict`, `degraded`, `shadow`";
        register.add("tollgate_decisions", labels, "Decisions", decisions);
        let labels = "`policy`, `limit`, `shadow`";
        let help = "Denials by the limit that denied; also those that shadow mode replaced, and \
                    the verdict `never`";
        register.add("tollgate_denials", labels, help, denials);
        let help = "Units granted; what settlements and refunds change is not counted";
        register.add("tollgate_granted_units", "`policy`", help, granted);
        let help = "Answers that repeated an earlier one under its request id";
        register.add("tollgate_replays", "`policy`", help, replays);
    }

    /// Finds the counters of policies, and starts at zero those that are to raise an alert: one
    /// that begins with its first event has no rate until the next.
    pub(super) fn add_policies(&self, policies: &Policies) {
        let mut by_name: HashMap<Box<str>, Handles> = HashMap::new();
        for policy in policies.iter() {
            let name = policy.name().as_str();
            let handles = Handles::new(&self.families, name);
            let modes = policy.limits().map(Limit::outage_mode);
            let handles = handles.begin(modes, policy.is_shadow(), policy.limit_names());
            by_name.insert(name.into(), handles);
        }
        let ad_hoc = policies.ad_hoc();
        let handles = Handles::new(&self.families, AD_HOC_POLICY);
        let handles = handles.begin([ad_hoc.outage_mode()], false, [ad_hoc.policy()]);
        by_name.insert(AD_HOC_POLICY.into(), handles);
        self.by_name.store(Arc::new(by_name));
    }

    /// Counts a decision.
    pub(super) fn decided(&self, request: &CheckRequest<'_>, response: &CheckResponse) {
        let by_name = self.by_name.load();
        let of = |name: &str| self.find(&by_name, name);
        // Of most requests it is the only policy.
        let main = of(response.policy.as_str());
        main.decided(response);
        for shadow in &response.shadows {
            of(shadow.policy.as_str()).decided(shadow);
        }
        if !response.decision.is_allowed() || response.decision.replayed {
            return;
        }
        for charge in request.charges() {
            let name = match charge.target {
                Target::Policy(name) => name,
                Target::Limit(limit) => limit.policy().as_str(),
            };
            let own = response.shadows.iter().find(|one| one.policy == name).unwrap_or(response);
            // What only shadow mode allowed was not granted.
            if own.shadow.is_some() {
                continue;
            }
            let units = units(charge, own);
            if response.policy == name {
                main.granted.inc_by(units);
            } else {
                of(name).granted.inc_by(units);
            }
        }
    }

    /// The counters of a policy. Those of one that was just removed are found anew.
    fn find<'a>(&self, by_name: &'a HashMap<Box<str>, Handles>, name: &str) -> OfPolicy<'a> {
        match by_name.get(name) {
            Some(handles) => OfPolicy::Known(handles),
            None => OfPolicy::Removed(Box::new(Handles::new(&self.families, name))),
        }
    }
}

/// The units of a charge that was allowed: of a range those that were granted.
fn units(charge: &RequestedCharge<'_>, response: &CheckResponse) -> u64 {
    let granted = response.decision.granted().map(Cost::get).or(response.granted);
    match (charge.up_to, granted) {
        (Some(most), Some(granted)) => granted.min(most.get()).max(charge.cost.get()),
        _ => charge.cost.get(),
    }
}

impl Handles {
    fn new(families: &Families, policy: &str) -> Self {
        let label = PolicyLabel { policy: policy.to_owned() };
        Self {
            policy: policy.to_owned(),
            families: families.clone(),
            decisions: [const { OnceLock::new() }; CELLS],
            denials: Vec::new(),
            shadow_denials: Vec::new(),
            granted: families.granted.get_or_create(&label).clone(),
            replays: OnceLock::new(),
        }
    }

    /// Starts series at zero.
    fn begin<'a>(
        mut self,
        modes: impl IntoIterator<Item = OutageMode>,
        is_shadow: bool,
        limits: impl IntoIterator<Item = &'a Name>,
    ) -> Self {
        let modes = modes.into_iter().map(Some).chain([None]);
        for degraded in modes {
            self.decisions(Verdict::Allowed, degraded, false, |_zero| {});
            self.decisions(Verdict::Denied, degraded, is_shadow, |_zero| {});
        }
        let of_limits = limits
            .into_iter()
            .map(|limit| (limit.clone(), self.denials_by(limit.as_str(), is_shadow)));
        let of_limits = of_limits.collect();
        if is_shadow {
            self.shadow_denials = of_limits;
        } else {
            self.denials = of_limits;
        }
        self
    }

    fn decided(&self, response: &CheckResponse) {
        let decision = &response.decision;
        let is_shadow = response.shadow.is_some();
        let verdict = response.shadow.unwrap_or(decision.verdict);
        self.decisions(verdict, decision.degraded, is_shadow, |decisions| {
            decisions.inc();
        });
        if decision.replayed {
            let label = || PolicyLabel { policy: self.policy.clone() };
            let found = || self.families.replays.get_or_create(&label()).clone();
            self.replays.get_or_init(found).inc();
        }
        if verdict != Verdict::Allowed {
            let only = || response.limits.first().map(|limit| &limit.name);
            let limit = decision.binding().or_else(only).unwrap_or(&response.policy);
            self.denied(limit, is_shadow);
        }
    }

    fn denied(&self, limit: &Name, is_shadow: bool) {
        let known = if is_shadow { &self.shadow_denials } else { &self.denials };
        match known.iter().find(|(name, _)| name == limit) {
            Some((_, counter)) => counter.inc(),
            None => self.denials_by(limit.as_str(), is_shadow).inc(),
        };
    }

    fn denials_by(&self, limit: &str, is_shadow: bool) -> Counter {
        let (policy, limit) = (self.policy.clone(), limit.to_owned());
        let labels = DenialLabels { policy, limit, shadow: yes(is_shadow) };
        self.families.denials.get_or_create(&labels).clone()
    }

    /// Does something with the counter of decisions of one kind.
    fn decisions(
        &self,
        verdict: Verdict,
        degraded: Option<OutageMode>,
        is_shadow: bool,
        count: impl FnOnce(&Counter),
    ) {
        let find = || {
            let labels = DecisionLabels {
                policy: self.policy.clone(),
                verdict: verdict.as_str(),
                degraded: degraded.map_or("no", OutageMode::as_str),
                shadow: yes(is_shadow),
            };
            self.families.decisions.get_or_create(&labels).clone()
        };
        let place = |place: Option<usize>| place.unwrap_or(CELLS);
        let by_verdict = place(VERDICTS.iter().position(|one| *one == verdict));
        let by_mode = place(DEGRADED.iter().position(|one| *one == degraded));
        let cell = (by_verdict * DEGRADED.len() + by_mode) * 2 + usize::from(is_shadow);
        match self.decisions.get(cell) {
            Some(cell) => count(cell.get_or_init(find)),
            None => count(&find()),
        }
    }
}

const fn yes(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

impl fmt::Debug for PolicyMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyMetrics").finish_non_exhaustive()
    }
}

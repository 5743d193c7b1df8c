//! Scripts: how they are put together, and the digest the server knows each by.
//!
//! A script is a frame with the scripted twins of the algorithms it needs (see
//! [`tollgate_core::algorithm::kernel`]) in front: `take` with one, for many keys that are charged
//! independently, with `spread` in front where they lie in several slots, `lone` for a single charge,
//! `admit` with several, for charges that are made all or none. Each combination is put together once.

use core::fmt::Write as _;
use core::mem::{Discriminant, discriminant};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use tollgate_core::algorithm::kernel::Source;
use tollgate_core::{Charge, Cost, QuotaId, Rule};

use crate::call::Body;
use crate::encode;
use crate::transport::Args;

/// Quotas whose arguments are remembered.
const RULES_MAX: usize = 1_024;
/// Quotas and costs whose calls are remembered, and how many places are looked at for each. Callers
/// may choose them as they like (`CL.THROTTLE`): when there is no room, calls are made anew.
const LONE_MAX: u64 = 1_024;
const LONE_PROBES: u64 = 4;

const LONE: &str = include_str!("lone.lua");
const TAKE: &str = include_str!("take.lua");
const SPREAD: &str = include_str!("spread.lua");
const ADMIT: &str = include_str!("admit.lua");
const LOAD: &str = include_str!("load.lua");
const SWAP: &str = include_str!("swap.lua");
const FORGET: &str = "return redis.call('DEL', KEYS[1])";

/// A Lua script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    text: String,
    digest: String,
    /// The words that begin a call by its digest, as they travel.
    encoded: Vec<u8>,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub fn new(text: String) -> Arc<Self> {
        let digest = sha1_smol::Sha1::from(&text).digest().to_string();
        let mut encoded = Vec::new();
        [&b"EVALSHA"[..], digest.as_bytes()]
            .iter()
            .for_each(|word| encode::word(&mut encoded, word));
        Arc::new(Self { text, digest, encoded })
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The SHA-1 of the text, in hexadecimal: what `EVALSHA` names it by.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }
}

/// All scripts of a store.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) load: Arc<Script>,
    pub(crate) swap: Arc<Script>,
    pub(crate) forget: Arc<Script>,
    lones: RwLock<Vec<(Identity, Arc<Script>)>>,
    takes: RwLock<Vec<(Identity, Arc<Script>)>>,
    spreads: RwLock<Vec<(Identity, Arc<Script>)>>,
    admits: Mutex<HashMap<Vec<Identity>, Arc<Script>>>,
    rules: Mutex<HashMap<(QuotaId, Identity), Arc<Args>>>,
    /// Written once and read without a lock, which every call would take.
    bodies: Box<[OnceLock<Lone>]>,
}

/// What is sent with a charge of this quota and cost.
#[derive(Debug)]
struct Lone {
    quota: Priced,
    body: Arc<Body>,
}

/// A quota, its twin, and a cost.
type Priced = (QuotaId, Identity, Cost);

/// Where to look for it first. Whoever finds many that fall together makes only those slower.
fn place_of((quota_id, (twin, ..), cost): &Priced) -> u64 {
    let words = quota_id.0.into_iter().chain([*twin as u64, cost.get()]);
    let mixed = words.fold(0_u64, |mixed, word| (mixed.rotate_left(5) ^ word).wrapping_mul(MIX));
    mixed >> 32
}

/// An odd number without a pattern: the golden ratio.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which frame, and the twins in front of it. Told apart by where the twins lie: to read them for every
/// call would take longer than all the rest of it.
#[derive(Clone, Debug)]
enum Frame<'t> {
    Lone(Source),
    Take(Source),
    Spread(Source),
    Admit(&'t [Source]),
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            load: Script::new(LOAD.to_owned()),
            swap: Script::new(SWAP.to_owned()),
            forget: Script::new(FORGET.to_owned()),
            lones: RwLock::default(),
            takes: RwLock::default(),
            spreads: RwLock::default(),
            admits: Mutex::default(),
            rules: Mutex::default(),
            bodies: (0..LONE_MAX).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl Scripts {
    /// Charges one key once.
    pub(crate) fn lone(&self, twin: Source) -> Arc<Script> {
        made_once(&self.lones, &Frame::Lone(twin), twin)
    }

    /// Charges many keys independently, all under quotas of one twin.
    pub(crate) fn take(&self, twin: Source) -> Arc<Script> {
        made_once(&self.takes, &Frame::Take(twin), twin)
    }

    /// The same for keys of several slots that one node serves.
    pub(crate) fn spread(&self, twin: Source) -> Arc<Script> {
        made_once(&self.spreads, &Frame::Spread(twin), twin)
    }

    /// Charges several keys, all or none. A charge names its twin by its place in the list, from 1.
    pub(crate) fn admit(&self, twins: &[Source]) -> Arc<Script> {
        let identities = twins.iter().copied().map(identity).collect();
        let mut admits = self.admits.lock().unwrap_or_else(PoisonError::into_inner);
        let made = admits.entry(identities);
        made.or_insert_with(|| Script::new(Frame::Admit(twins).text())).clone()
    }

    /// What is sent with a charge that is alone in its call and decided by the server's clock. It
    /// is `made` once for each quota and cost, as long as there is room.
    pub(crate) fn body(
        &self,
        charge: &Charge<'_>,
        twin: Source,
        made: impl FnOnce() -> Args,
    ) -> Arc<Body> {
        let quota = (charge.rule().quota_id(), identity(twin), charge.cost);
        let start = place_of(&quota);
        let places = (0..LONE_PROBES).map(|step| start.wrapping_add(step) % LONE_MAX);
        let mut free = None;
        for place in places.filter_map(|place| self.bodies.get(usize::try_from(place).ok()?)) {
            match place.get() {
                Some(lone) if lone.quota == quota => return Arc::clone(&lone.body),
                Some(_) => {}
                None => {
                    free = Some(place);
                    break;
                }
            }
        }
        let body = Arc::new(Body { script: self.lone(twin), args: made() });
        // Somebody else may have been faster, with the same or another one.
        let _ = free.map(|place| place.set(Lone { quota, body: Arc::clone(&body) }));
        body
    }

    /// Appends the texts and numbers of a quota, as its twin expects them. They are written once and
    /// then copied.
    pub(crate) fn write_rule(&self, args: &mut Args, rule: &Rule) {
        let Some(twin) = rule.twin() else { return };
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        // Callers may choose quotas as they like (`CL.THROTTLE`): only so many are remembered.
        if rules.len() > RULES_MAX {
            rules.clear();
        }
        let key = (rule.quota_id(), identity(twin));
        let written = rules.entry(key).or_insert_with(|| Arc::new(written(rule))).clone();
        drop(rules);
        args.append(&written);
    }
}

/// The script of a twin among those that were made before. There are few.
fn made_once(
    scripts: &RwLock<Vec<(Identity, Arc<Script>)>>,
    frame: &Frame<'_>,
    twin: Source,
) -> Arc<Script> {
    let identity = identity(twin);
    let find = |scripts: &[(Identity, Arc<Script>)]| {
        scripts.iter().find(|(other, _)| *other == identity).map(|(_, script)| script.clone())
    };
    let known = find(&scripts.read().unwrap_or_else(PoisonError::into_inner));
    known.unwrap_or_else(|| {
        let mut scripts = scripts.write().unwrap_or_else(PoisonError::into_inner);
        find(&scripts).unwrap_or_else(|| {
            let script = Script::new(frame.text());
            scripts.push((identity, script.clone()));
            script
        })
    })
}

/// The only argument of a [`lone`](Scripts::lone) call: a list in JSON. None of its texts needs an escape.
pub(crate) fn lone_list(rule: &Rule, cost: Cost, (instant, grace): (Option<u64>, i64)) -> Args {
    let [tag, a, b, c] = rule.quota_id().0;
    let mut list = format!("[{grace},\"{tag},{a},{b}\",\"{tag},{a},{b},{c}\"");
    let mut numbers = Vec::with_capacity(8);
    rule.kernel_cost(cost, &mut numbers);
    let of_rule = rule.kernel().map(|kernel| kernel.rule).unwrap_or_default();
    of_rule.iter().for_each(|number| push(&mut list, number));
    numbers.iter().for_each(|number| push(&mut list, number));
    instant.into_iter().for_each(|instant| push(&mut list, instant));
    list.push(']');
    let mut args = Args::default();
    args.text(&list);
    args
}

fn push(list: &mut String, number: impl core::fmt::Display) {
    // Writing to a text does not fail.
    let _ = write!(list, ",{number}");
}

fn written(rule: &Rule) -> Args {
    let [tag, a, b, c] = rule.quota_id().0;
    let mut args = Args::default();
    args.text(&format!("{tag},{a},{b}"));
    args.text(&format!("{tag},{a},{b},{c}"));
    for number in rule.kernel().map(|kernel| kernel.rule).unwrap_or_default() {
        args.unsigned(number);
    }
    args
}

/// What tells twins apart without reading them: where the text lies, how long it is, and what it is.
pub(crate) type Identity = (usize, usize, Discriminant<Source>);

pub(crate) fn identity(twin: Source) -> Identity {
    let (Source::Whole(text) | Source::Step(text)) = twin;
    (text.as_ptr().addr(), text.len(), discriminant(&twin))
}

impl Frame<'_> {
    fn text(&self) -> String {
        match self {
            Self::Lone(twin) => format!("{}\n{LONE}", twin.text()),
            Self::Take(twin) => format!("{}\n{TAKE}", twin.text()),
            Self::Spread(twin) => format!("{SPREAD}{}\n{TAKE}", twin.text()),
            Self::Admit(twins) => {
                let declare = |twin: &Source| {
                    let text = twin.text();
                    format!(
                        "K[#K + 1] = (function()\n{text}\nreturn {{rule = RULE, cost = COST, \
                         read = read, step = step, words = words, write = write}}\nend)()\n"
                    )
                };
                let twins: String = twins.iter().map(declare).collect();
                format!("local K = {{}}\n{twins}{ADMIT}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that ends up in a script.
    fn all_sources() -> Vec<(&'static str, String)> {
        use tollgate_core::algorithm::kernel::WORDS;
        use tollgate_core::{Quota, algorithm as a};
        let quota = || Quota::per_second(1);
        let twins: [Rule; 4] = [
            Rule::new(a::Gcra::new(quota()).unwrap()),
            Rule::new(a::FixedWindow::new(quota(), a::Anchor::Epoch).unwrap()),
            Rule::new(a::SlidingWindow::new(quota()).unwrap()),
            Rule::new(a::SlidingLog::new(quota()).unwrap()),
        ];
        let frames = [LONE, TAKE, SPREAD, ADMIT, LOAD, SWAP, FORGET, WORDS]
            .map(|text| ("frame", text.to_owned()));
        let twins = twins.map(|rule| ("twin", rule.kernel().unwrap().source.text()));
        frames.into_iter().chain(twins).collect()
    }

    #[test]
    fn numbers_leave_lua_only_in_ways_that_are_exact() {
        for (kind, text) in all_sources() {
            for line in text.lines() {
                let code = line.split("--").next().unwrap_or_default();
                for banned in ["tostring", "..", "cjson.encode", "%g", "cmsgpack", "struct."] {
                    assert!(!code.contains(banned), "{kind} uses {banned}: {line}");
                }
            }
        }
    }

    #[test]
    fn each_script_is_made_once() {
        let scripts = Scripts::default();
        let (one, two) = (Source::Whole("-- a"), Source::Whole("-- b"));
        assert!(Arc::ptr_eq(&scripts.take(one), &scripts.take(one)));
        assert!(Arc::ptr_eq(&scripts.lone(one), &scripts.lone(one)));
        assert_ne!(scripts.take(one).digest(), scripts.take(two).digest());
        assert_ne!(scripts.take(one).digest(), scripts.lone(one).digest());
        assert_ne!(scripts.admit(&[one]).digest(), scripts.take(one).digest());
        assert!(Arc::ptr_eq(&scripts.spread(one), &scripts.spread(one)));
        assert_ne!(scripts.spread(one).digest(), scripts.take(one).digest());
    }

    #[test]
    fn the_digest_is_that_of_the_text() {
        let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        assert_eq!(Script::new("return 1".to_owned()).digest(), digest);
    }
}

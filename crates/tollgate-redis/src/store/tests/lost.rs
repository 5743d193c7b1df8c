//! Nodes that do not answer while several slots are charged one after another.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tollgate_core::store::{CallContext, Evidence, Store};
use tollgate_core::{
    Admission, Charge, Code, Error, Limit, Quota, Receipt, RequestId, Result, algorithm as a,
};
use tollgate_testkit::derive::decisions_of;
use tollgate_testkit::runtime::block_on;

use super::Plain;
use super::cross_slot::{limit, spent};
use crate::Redis;
use crate::slot::slot_of;
use crate::transport::{Call, Reply, Sharing, Transport};

/// What becomes of a call.
#[derive(Clone, Copy, Debug)]
enum CallFault {
    Answered,
    /// It runs, and its reply is lost.
    ReplyLost,
    NotSent,
}

/// A server whose slots are treated as if they were on several nodes, some of which do not answer.
struct FaultyTransport {
    plain: Plain,
    sharing: Sharing,
    /// Of the next calls; all after them are answered.
    faults: Mutex<VecDeque<CallFault>>,
}

impl FaultyTransport {
    fn store(sharing: Sharing) -> Redis<Self> {
        Redis::over(Self { plain: Plain::connect(), sharing, faults: Mutex::default() })
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, VecDeque<CallFault>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for FaultyTransport {
    fn sharing(&self) -> Sharing {
        self.sharing
    }

    async fn send(&self, call: &Call) -> Result<Reply> {
        let fault = self.faults().pop_front().unwrap_or(CallFault::Answered);
        let silent = || Error::new(Code::StoreUnavailable, "the node does not answer");
        match fault {
            CallFault::Answered => self.plain.send(call).await,
            CallFault::ReplyLost => self.plain.send(call).await.and(Err(silent())),
            CallFault::NotSent => Err(silent().not_sent()),
        }
    }
}

fn admit(store: &Redis<FaultyTransport>, admission: &Admission<'_>) -> Result<Evidence> {
    block_on(store.admit(admission, CallContext::store_clock()))
}

/// An admission whose calls meet these faults, and no more calls than that.
fn admit_with(
    store: &Redis<FaultyTransport>,
    faults: &[CallFault],
    admission: &Admission<'_>,
) -> Result<Evidence> {
    store.transport().faults().extend(faults);
    let answer = admit(store, admission);
    assert!(store.transport().faults().is_empty(), "fewer calls than faults: {answer:?}");
    answer
}

fn is_admitted(admission: &Admission<'_>, outcome: &Evidence) -> bool {
    decisions_of(admission, outcome).unwrap().admitted
}

/// Subjects in the order in which their slots are charged.
fn subjects<const N: usize>(limit: &Limit) -> [String; N] {
    let mut subjects: Vec<String> = (0..N).map(|number| format!("s{number}")).collect();
    subjects.sort_by_key(|subject| slot_of(limit.charge(subject).key().to_text().as_bytes()));
    subjects.try_into().unwrap()
}

/// Loads the scripts on the server: their texts would be calls of their own.
fn load_scripts(store: &Redis<FaultyTransport>, admission: &Admission<'_>) {
    admit(store, admission).unwrap();
}

/// The record may have been written: an attempt that finds it passes, and must have paid
/// everywhere.
#[test]
fn a_lost_reply_of_the_record_admits_nothing_for_free() {
    let store = FaultyTransport::store(Sharing::SameSlot);
    let limit = limit("lost-reply", "all", 100);
    let [other, home] = subjects(&limit);
    let charges = [limit.charge(&home), limit.charge(&other)];
    let named = |id| Admission::of(&charges).request_id(RequestId::new(id).unwrap());
    load_scripts(&store, &named("first"));
    let second = named("second");
    let lost =
        admit_with(&store, &[CallFault::Answered, CallFault::ReplyLost], &second).unwrap_err();
    assert!(lost.is_outage() && !lost.is_not_sent(), "{lost}");
    let again = admit(&store, &second).unwrap();
    assert!(is_admitted(&second, &again));
    assert_eq!(charges.map(|charge| spent(&store, charge)), [2, 2]);
    // One that was not sent left no record: all is undone, and the next attempt pays once.
    let third = named("third");
    let not_sent =
        admit_with(&store, &[CallFault::Answered, CallFault::NotSent], &third).unwrap_err();
    assert!(not_sent.is_not_sent(), "{not_sent}");
    assert_eq!(charges.map(|charge| spent(&store, charge)), [2, 2]);
    assert!(is_admitted(&third, &admit(&store, &third).unwrap()));
    assert_eq!(charges.map(|charge| spent(&store, charge)), [3, 3]);
}

/// A denial stands, whichever other node is silent, and what can be undone is.
#[test]
fn a_denial_stands_while_other_nodes_are_silent() {
    let store = FaultyTransport::store(Sharing::SameSlot);
    let wide = limit("silent", "wide", 100);
    let [first, second, third, last] = subjects(&wide);
    let narrow = limit("silent", "narrow", 1).with_prefix("silent").unwrap();
    let denying = (0..).map(|number| format!("d{number}")).find(|subject| {
        let slot = |charge: Charge<'_>| slot_of(charge.key().to_text().as_bytes());
        let denying = slot(narrow.charge(subject));
        slot(wide.charge(&second)) < denying && denying < slot(wide.charge(&third))
    });
    let denying = denying.unwrap();
    let of_wide = [&first, &second, &third, &last].map(|subject| wide.charge(subject));
    let [a, b, c, d] = of_wide;
    let charges = [a, b, narrow.charge(&denying), c, d];
    let admission = Admission::of(&charges);
    assert!(is_admitted(&admission, &admit(&store, &admission).unwrap()));
    // Denied and undone once, so that all scripts are known.
    assert!(!is_admitted(&admission, &admit(&store, &admission).unwrap()));
    assert_eq!(of_wide.map(|charge| spent(&store, charge)), [1; 4]);
    use CallFault::{Answered, NotSent};
    let faults = [Answered, Answered, Answered, NotSent, Answered, NotSent, NotSent];
    let outcome = admit_with(&store, &faults, &admission).unwrap();
    assert!(!is_admitted(&admission, &outcome));
    // The first node keeps what it could not be asked to give back; the second has given it back.
    assert_eq!(of_wide.map(|charge| spent(&store, charge)), [2, 1, 1, 1]);
}

/// A refund that was made in part must not be repeated.
#[test]
fn a_refund_that_is_half_done_is_not_to_be_repeated() {
    let store = FaultyTransport::store(Sharing::SameSlot);
    let limit = limit("half", "all", 100);
    let [one, two] = subjects(&limit);
    let charges = [limit.charge(&one), limit.charge(&two)];
    for _ in 0..5 {
        load_scripts(&store, &Admission::of(&charges));
    }
    let refunds = charges.map(|charge| charge.refund(Receipt::Newest));
    load_scripts(&store, &Admission::of(&refunds));
    let faults = [CallFault::Answered, CallFault::Answered, CallFault::NotSent];
    let error = admit_with(&store, &faults, &Admission::of(&refunds)).unwrap_err();
    assert!(error.is_outage() && !error.is_not_sent(), "{error}");
    assert_eq!(charges.map(|charge| spent(&store, charge)), [3, 4]);
    // Where nothing was done, it may.
    let error = admit_with(&store, &[CallFault::NotSent], &Admission::of(&refunds)).unwrap_err();
    assert!(error.is_not_sent(), "{error}");
}

/// One server decides such charges in Rust, and so must several.
#[test]
fn two_quotas_of_one_key_are_decided_as_on_one_server() {
    let day = Duration::from_secs(86_400);
    let of = |prefix: &str, units| {
        let rule = a::Gcra::new(Quota::new(units, day)).unwrap();
        Limit::new("api", rule).unwrap().with_prefix(prefix).unwrap()
    };
    let run = |sharing, prefix: &str| -> Vec<bool> {
        let store = FaultyTransport::store(sharing);
        let (strict, lax, other) = (of(prefix, 5), of(prefix, 50), of(prefix, 1_000));
        let charges = [strict.charge("k"), lax.charge("k"), other.charge("l")];
        let admission = Admission::of(&charges);
        let mut at = 1_794_000_000_000_000;
        let decide = |_| {
            at += 1_000_000;
            let outcome = block_on(store.admit(&admission, CallContext::at(at))).unwrap();
            is_admitted(&admission, &outcome)
        };
        (0..30).map(decide).collect()
    };
    let (alone, several) = (run(Sharing::AnyKeys, "alone"), run(Sharing::SameSlot, "several"));
    assert_eq!(several, alone);
    assert!(alone.contains(&true) && alone.contains(&false), "{alone:?}");
    // With a record in the slot of that key there is no way.
    let store = FaultyTransport::store(Sharing::SameSlot);
    let (strict, lax, other) = (of("recorded", 5), of("recorded", 50), of("recorded", 1_000));
    let charges = [strict.charge("k"), lax.charge("k"), other.charge("l")];
    let named = Admission::of(&charges).request_id(RequestId::new("id").unwrap());
    assert_eq!(admit(&store, &named).unwrap_err().code(), Code::Unsupported);
    assert_eq!(spent(&store, charges[2]), 0);
}

/// An id whose record cannot be read charges nothing, on one slot or on several.
#[test]
fn a_record_that_is_none_is_corrupt() {
    let limit = limit("no-record", "all", 100);
    let charges = [limit.charge("k"), limit.charge("l")];
    for (sharing, id) in [(Sharing::AnyKeys, "one"), (Sharing::SameSlot, "several")] {
        let store = FaultyTransport::store(sharing);
        let name = store.0.record_name(charges[0].key(), id);
        let mut client = tollgate_test_servers::shared::redis().client().unwrap();
        for words in [&["SET", &name, "junk"][..], &["RPUSH", &name, "junk"]] {
            client.call(&["DEL", &name]).unwrap();
            client.call(words).unwrap();
            let named = Admission::of(&charges).request_id(RequestId::new(id).unwrap());
            let error = admit(&store, &named).unwrap_err();
            assert_eq!(error.code(), Code::CorruptState, "{error}");
        }
        assert_eq!(charges.map(|charge| spent(&store, charge)), [0, 0]);
    }
}

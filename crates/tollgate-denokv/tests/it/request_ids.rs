//! A bound on request ids: the oldest make room.

use tollgate_core::store::{Bounds, CallContext, Store, WhenIdsFull};
use tollgate_core::{Admission, Charge, Code, Receipt, RequestId, Result};
use tollgate_denokv::DenoKv;
use tollgate_test_servers::shared::denokv;

use crate::support::{NOW, block_on, config, limit, open};

const MAX: usize = 160;
const IDS: u64 = 400;

/// Whether it is a replay.
fn admit(store: &DenoKv, charge: Charge<'_>, id: &str, after: u64) -> Result<bool> {
    let charges = [charge];
    let admission = Admission::of(&charges).request_id(RequestId::new(id)?);
    let admitted = block_on(store.admit(&admission, CallContext::at(NOW + after)));
    admitted.map(|evidence| evidence.replayed.is_some())
}

#[test]
fn the_oldest_are_deleted_by_the_bound_of_the_store_or_of_a_policy() {
    let url = denokv().url();
    let bounds = Bounds::new().max_request_ids(MAX);
    let of_store = DenoKv::open(config(&url).max_request_ids(MAX)).unwrap();
    for (store, limit) in [(of_store, limit(10_000)), (open(&url), limit(10_000).bounded(bounds))] {
        let key = limit.charge("0");
        assert!(!admit(&store, key, "first", 0).unwrap());
        assert!(!admit(&store, key.refund(Receipt::Newest), "refund", 0).unwrap());
        for number in 0..IDS {
            let (subject, id) = ((number % 20).to_string(), number.to_string());
            assert!(!admit(&store, limit.charge(&subject), &id, number).unwrap());
        }
        let kept = IDS + 2 - store.forgotten_request_ids();
        assert!((60..=161).contains(&kept), "{kept} of {MAX} are kept");
        // Another process sees what is stored.
        let other = open(&url);
        assert!(admit(&other, limit.charge("19"), "399", IDS).unwrap(), "the newest is gone");
        assert!(admit(&other, key.refund(Receipt::Newest), "refund", IDS).unwrap());
        assert!(!admit(&other, key, "first", IDS).unwrap(), "the oldest is kept");
    }
}

#[test]
fn a_policy_may_refuse_instead() {
    let refuse = Bounds::new().max_request_ids(32).when_ids_full(WhenIdsFull::Refuse);
    let (store, limit) = (open(&denokv().url()), limit(100).bounded(refuse));
    assert!(!admit(&store, limit.charge("a"), "1", 0).unwrap());
    assert!(!admit(&store, limit.charge("a"), "2", 0).unwrap());
    let full = admit(&store, limit.charge("a"), "3", 0).map_err(|error| error.code());
    assert_eq!(full, Err(Code::QueueFull));
    assert!(!admit(&store, limit.charge("b"), "3", 0).unwrap(), "another key has room");
    assert!(admit(&store, limit.charge("a"), "1", 0).unwrap());
    assert_eq!(store.forgotten_request_ids(), 0);
}

//! Quotas that change in turn on correct stores, and on one that forgets.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate_core::store::{CallContext, Memory, Store};
use tollgate_testkit::ReferenceStore;
use tollgate_testkit::runtime::block_on;
use tollgate_testkit::turns::{Turns, changed_quotas_never_mint};

use crate::flawed_store::{Flaw, FlawedStore};

const NOW: u64 = 1_700_000_000_000_000;

/// Three servers on one store.
fn take_turns<S: Store>(store: &S) -> Turns {
    let turns = block_on(changed_quotas_never_mint(&[store; 3], "three", || CallContext::at(NOW)));
    println!("{turns:?}");
    turns
}

#[test]
fn changed_quotas_never_mint_in_memory() {
    assert_eq!(take_turns(&Memory::new()).refused, 0);
}

#[test]
fn changed_quotas_never_mint_on_the_reference_store() {
    assert_eq!(take_turns(&ReferenceStore::new()).refused, 0);
}

#[test]
fn a_store_that_forgets_what_was_cut_off_is_caught() {
    assert_eq!(take_turns(&FlawedStore::new(Flaw::None)).refused, 0);
    let flawed = FlawedStore::new(Flaw::ForgetsOtherQuotas);
    assert!(catch_unwind(AssertUnwindSafe(|| take_turns(&flawed))).is_err());
}

//! The conformance suite: the contract of every store, one clause per function.
//!
//! [`store_conformance!`](crate::store_conformance) turns the clauses into tests of your crate. The
//! store's capability selects the clauses; one that does not apply prints that. Each clause uses
//! its own names, so suites can share one server, and panics with what it found when the store
//! breaks it.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a clause panics when the store breaks it: that is its purpose"
)]

mod agreement;
mod atomic;
mod capability;
mod clocks;
mod custom;
mod keys;
mod now;
mod once;
mod quotas;
mod ranges;
mod refunds;
mod settling;
mod suite;
mod swaps;
mod writes;

use tollgate_core::Micros;
use tollgate_core::store::Store;

use crate::model::ModelQuota;

pub use agreement::{admit_many_equals_one_by_one, agrees_with_the_model, replays_golden_vectors};
pub use atomic::{
    all_or_nothing, all_or_nothing_under_contention, concurrent_applies_read_back_exactly,
    concurrent_checks_admit_exactly, threads_admit_exactly, two_charges_on_one_key_apply_in_order,
};
pub use capability::capability_is_truthful;
pub use clocks::{
    clocks_stepping_back_never_over_admit, skewed_clocks_never_over_admit,
    stepping_back_after_expiry_never_over_admits,
};
pub use custom::{unknown_states_are_refused, user_algorithms_run};
pub use keys::{expires, isolates_keys, persists, reset_clears};
pub use now::deciding_now_equals_admitting;
pub use once::{
    concurrent_copies_charge_once, denied_request_ids_are_decided_anew,
    request_id_bound_refuses_and_drops_nothing, request_id_replays_the_decision,
    request_id_with_another_cost_conflicts, request_ids_are_scoped_to_their_key,
    request_ids_cover_all_charges, request_ids_expire,
};
pub use quotas::{
    changed_quotas_are_carried_at_first_contact, changed_quotas_keep_what_was_spent,
    quotas_in_turn_never_lock_out, quotas_in_turn_never_mint,
};
pub use ranges::{
    concurrent_ranges_hand_out_exactly, ranges_over_keys_are_granted_the_same,
    ranges_take_what_is_there, request_ids_replay_ranges,
};
pub use refunds::refunds_give_back_what_is_left;
pub use settling::{
    concurrent_settlements_count_exactly, copies_of_a_settlement_apply_once,
    settlements_over_keys_apply_once, settles_down_up_and_into_debt,
};
pub use suite::{Options, Suite};
pub use swaps::swaps_compare;
pub use writes::{denials_write_nothing, peek_never_writes};

/// Thirty days: no unit is refilled while a clause runs on a real clock.
const MONTH: Micros = 30 * 86_400_000_000;
const SECOND: Micros = 1_000_000;

/// One quota of every algorithm and variant, all with the same ceiling and period.
fn every_quota(limit: u64, period_us: Micros) -> Vec<ModelQuota> {
    ModelQuota::every_kind(limit, period_us)
}

/// Prints that a clause does not apply to this store, and why.
#[expect(clippy::print_stderr, reason = "a skipped clause must be visible in the test's output")]
fn skipped(clause: &str, because: &str) {
    eprintln!("skipped: {clause}: {because}");
}

/// Runs every clause on one store, and returns the names of the clauses: for programs that are not
/// tests.
///
/// Only [`threads_admit_exactly`] is left out: it needs a runner for each of its threads.
///
/// ```
/// use tollgate_testkit::conformance::{self, Options};
/// use tollgate_testkit::{ReferenceStore, runtime::block_on};
///
/// let clauses = block_on(conformance::run(&ReferenceStore::new(), Options::default()));
/// assert!(clauses.contains(&"all_or_nothing"));
/// ```
pub async fn run<S: Store>(store: &S, options: Options) -> Vec<&'static str> {
    let mut clauses = Vec::new();
    macro_rules! each {
        ($($clause:ident)*) => {
            $(
                $clause(&Suite::new(store, options)).await;
                clauses.push(stringify!($clause));
            )*
        };
    }
    crate::each_clause! { [each] }
    clauses
}

/// Closes a store after a clause; the macro calls it.
#[doc(hidden)]
pub async fn close(store: &impl Store) {
    store.close().await;
}

/// Hands the names of all clauses to the macro in brackets: the one list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! each_clause {
    ([$($macro:tt)*] $($head:tt)*) => {
        $($macro)*! { $($head)*
            persists
            isolates_keys
            reset_clears
            expires
            peek_never_writes
            denials_write_nothing
            concurrent_applies_read_back_exactly
            concurrent_checks_admit_exactly
            all_or_nothing
            all_or_nothing_under_contention
            two_charges_on_one_key_apply_in_order
            request_id_replays_the_decision
            request_id_with_another_cost_conflicts
            request_ids_are_scoped_to_their_key
            request_ids_cover_all_charges
            denied_request_ids_are_decided_anew
            request_ids_expire
            concurrent_copies_charge_once
            request_id_bound_refuses_and_drops_nothing
            changed_quotas_keep_what_was_spent
            changed_quotas_are_carried_at_first_contact
            quotas_in_turn_never_mint
            quotas_in_turn_never_lock_out
            refunds_give_back_what_is_left
            settles_down_up_and_into_debt
            concurrent_settlements_count_exactly
            copies_of_a_settlement_apply_once
            settlements_over_keys_apply_once
            ranges_take_what_is_there
            ranges_over_keys_are_granted_the_same
            concurrent_ranges_hand_out_exactly
            request_ids_replay_ranges
            clocks_stepping_back_never_over_admit
            stepping_back_after_expiry_never_over_admits
            skewed_clocks_never_over_admit
            agrees_with_the_model
            replays_golden_vectors
            admit_many_equals_one_by_one
            deciding_now_equals_admitting
            user_algorithms_run
            unknown_states_are_refused
            capability_is_truthful
        }
    };
}

/// Expands to one `#[test]` per clause of the [conformance suite](crate::conformance).
///
/// `open` is an async function, or a closure that returns a future, whose output is the store;
/// every clause opens its own. A store that needs a runtime brings its own runner, any function
/// that runs a future to its end; it must use one runtime for all calls.
///
/// ```text
/// store_conformance!(my_open);
/// store_conformance!(runner = my_block_on, open = my_open);
/// store_conformance!(runner = my_block_on, open = my_open, options = my_options());
/// ```
#[macro_export]
macro_rules! store_conformance {
    ($open:expr $(,)?) => {
        $crate::store_conformance!(runner = $crate::runtime::block_on, open = $open);
    };
    (runner = $runner:expr, open = $open:expr $(,)?) => {
        $crate::store_conformance!(
            runner = $runner,
            open = $open,
            options = $crate::conformance::Options::default()
        );
    };
    (runner = $runner:expr, open = $open:expr, options = $options:expr $(,)?) => {
        $crate::each_clause! { [$crate::store_conformance] @each ($runner, $open, $options) }
        #[test]
        fn threads_admit_exactly() {
            let store = ($runner)(($open)());
            let suite = $crate::conformance::Suite::new(&store, $options);
            $crate::conformance::threads_admit_exactly(&suite, &|future| ($runner)(future));
            ($runner)($crate::conformance::close(&store));
        }
    };
    (@each ($runner:expr, $open:expr, $options:expr) $($clause:ident)*) => {
        $(
            #[test]
            fn $clause() {
                let store = ($runner)(($open)());
                let suite = $crate::conformance::Suite::new(&store, $options);
                ($runner)($crate::conformance::$clause(&suite));
                ($runner)($crate::conformance::close(&store));
            }
        )*
    };
}

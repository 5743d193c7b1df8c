//! The suite must be able to fail: every flaw is caught by the clause that is about it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate_testkit::conformance::{self, Options, Suite};
use tollgate_testkit::runtime::block_on;

use crate::flawed_store::{Flaw, FlawedStore, RECORDS_MAX};

/// Whether the clause fails on a store with this flaw.
macro_rules! fails {
    ($clause:ident, $flaw:expr) => {{
        let store = FlawedStore::new($flaw);
        let options = Options { records_max: Some(RECORDS_MAX), ..Options::default() };
        let suite = Suite::new(&store, options);
        catch_unwind(AssertUnwindSafe(|| block_on(conformance::$clause(&suite)))).is_err()
    }};
}

/// One test per flaw: the clause catches it, and passes a store without it.
macro_rules! catches {
    ($($test:ident: $clause:ident catches $flaw:ident;)*) => {
        $(
            #[test]
            fn $test() {
                assert!(!fails!($clause, Flaw::None), "the clause fails on a correct store");
                assert!(fails!($clause, Flaw::$flaw), "the clause does not catch the flaw");
            }
        )*
    };
}

catches! {
    lost_updates_read_back_wrong: concurrent_applies_read_back_exactly catches LosesUpdates;
    lost_updates_over_admit: concurrent_checks_admit_exactly catches LosesUpdates;
    lost_updates_charge_copies_twice: concurrent_copies_charge_once catches LosesUpdates;
    denied_combinations_that_charge: all_or_nothing catches ChargesDeniedCombinations;
    contended_combinations_that_charge:
        all_or_nothing_under_contention catches ChargesDeniedCombinations;
    pairs_on_one_key_that_do_not_see_each_other:
        two_charges_on_one_key_apply_in_order catches ChargesDeniedCombinations;
    step_back_that_refills: clocks_stepping_back_never_over_admit catches ForgetsOnStepBack;
    step_back_after_expiry_that_refills:
        stepping_back_after_expiry_never_over_admits catches ForgetsOnStepBack;
    skew_that_refills: skewed_clocks_never_over_admit catches ForgetsOnStepBack;
    expiry_that_forgets_time:
        stepping_back_after_expiry_never_over_admits catches ForgetsExpiredStates;
    peek_that_writes: peek_never_writes catches PeekWrites;
    denial_that_writes: denials_write_nothing catches DenialWrites;
    keys_that_meet: isolates_keys catches JoinsKeysPlainly;
    change_that_refills: changed_quotas_keep_what_was_spent catches ForgetsOnChange;
    unknown_state_taken_for_fresh: unknown_states_are_refused catches ForgetsOnChange;
    change_that_is_not_kept:
        changed_quotas_are_carried_at_first_contact catches CarriesOnlyWhenAllowed;
    cut_that_is_forgotten: quotas_in_turn_never_mint catches ForgetsOtherQuotas;
    change_that_starts_over: quotas_in_turn_never_lock_out catches ForgetsOtherQuotas;
    other_quotas_that_disagree_with_the_model: agrees_with_the_model catches ForgetsOtherQuotas;
    short_ttl_disagrees_with_the_model: agrees_with_the_model catches ForgetsAfterAMinute;
    short_ttl_breaks_vectors: replays_golden_vectors catches ForgetsAfterAMinute;
    reset_that_does_nothing: reset_clears catches IgnoresReset;
    time_that_is_rounded: agrees_with_the_model catches RoundsTheTime;
    batches_out_of_order: admit_many_equals_one_by_one catches ReversesBatches;
    ids_that_are_forgotten: request_id_replays_the_decision catches ForgetsIds;
    ids_that_are_forgotten_over_keys: request_ids_cover_all_charges catches ForgetsIds;
    ids_without_payload: request_id_with_another_cost_conflicts catches IgnoresPayloads;
    ids_that_leak: request_ids_are_scoped_to_their_key catches LeaksIds;
    ids_for_ever: request_ids_expire catches KeepsIdsForEver;
    denials_that_are_saved: denied_request_ids_are_decided_anew catches SavesDenials;
    ids_that_are_dropped: request_id_bound_refuses_and_drops_nothing catches DropsOldIds;
    deciding_now_for_free: deciding_now_equals_admitting catches DecidesNowForFree;
    ranges_that_overdraw: concurrent_ranges_hand_out_exactly catches LosesUpdates;
    ranges_over_keys_that_charge:
        ranges_over_keys_are_granted_the_same catches ChargesDeniedCombinations;
    ranges_whose_ids_are_forgotten: request_ids_replay_ranges catches ForgetsIds;
    capability_that_lies: capability_is_truthful catches Lies;
}

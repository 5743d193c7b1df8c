//! The tests of the HTTP API, for every host that serves it: the server, and Workers.
//!
//! A host implements [`Target`] and names itself in [`api_tests!`](crate::api_tests). If its clock
//! can be moved by tests, it implements [`ManualTarget`] too, for
//! [`api_tests_with_clock!`](crate::api_tests_with_clock). A case knows only the address of a
//! server; it fails by a panic.
//!
//! What a host has beside the API is tested where the host is: other protocols, TLS, shutdown,
//! outages of a store that is made to fail, metrics, traces, reload.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "in a test, a panic is the message"
)]
#![expect(clippy::print_stdout, reason = "seeds are printed")]

pub mod any_clock;
pub mod charges;
mod client;
pub mod clients;
pub mod decisions;
pub mod documents;
pub mod exact;
pub mod garbage;
pub mod health;
pub mod pages;
pub mod policies;
pub mod refunds;
pub mod settle;
pub mod tokens;

use std::future::Future;
use std::time::Duration;

pub use client::Client;

/// A bucket of ten that refills in ten days.
pub const SLOW: &str =
    "policies: {default: {algorithm: token_bucket, capacity: 10, refill: 1 per 1d}}";
/// A bucket of ten that refills in ten seconds.
pub const FAST: &str =
    "policies: {default: {algorithm: token_bucket, capacity: 10, refill: 1 per 1s}}";
/// A token of callers.
pub const CALLER: &str = "token-of-a-caller";
/// A token of administrators.
pub const ADMIN: &str = "token-of-an-admin";
/// A secret that is long enough for receipts.
pub const SECRET: &str = "a-secret-of-servers";
/// The time at which a [`ManualTarget`] starts, in microseconds since the epoch.
pub const NOW: u64 = 1_800_000_000_000_000;

/// What a server is started with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup<'a> {
    /// The text of the policy file.
    pub policies: &'a str,
    /// The tokens of callers, each perhaps with its policies: `token:policy+policy`.
    pub tokens: &'a [&'a str],
    /// The tokens of administrators.
    pub admin_tokens: &'a [&'a str],
    /// The secret of key hashes; empty for none.
    pub hash_secret: &'a str,
    /// The secret of receipts; empty for that of key hashes.
    pub receipt_secret: &'a str,
}

impl<'a> Setup<'a> {
    /// With a policy file, and without tokens.
    #[must_use]
    pub const fn of(policies: &'a str) -> Self {
        Self { policies, tokens: &[], admin_tokens: &[], hash_secret: "", receipt_secret: "" }
    }
}

/// A server that runs.
pub trait Running: Sync {
    /// Its address, without a slash at the end.
    fn url(&self) -> String;

    /// Ends it, and waits until it has.
    fn end(self) -> impl Future<Output = ()> + Send;
}

/// A host of the API.
pub trait Target: Sync {
    /// A server of its own for a case.
    type Server: Running;

    /// Whether it serves `/metrics`.
    const HAS_METRICS: bool;

    /// Starts a server with a store that is empty.
    fn start(&self, setup: Setup<'_>) -> impl Future<Output = Self::Server> + Send;
}

/// A host whose clock stands still until a case moves it.
pub trait ManualTarget: Target {
    /// Starts a server with an empty store at [`NOW`].
    fn start_at_now(&self, setup: Setup<'_>) -> impl Future<Output = Self::Server> + Send;

    /// Moves the clock of a server that was started by [`Self::start_at_now`].
    fn advance(&self, server: &Self::Server, by: Duration) -> impl Future<Output = ()> + Send;
}

/// One test for each case that runs with any clock.
#[macro_export]
macro_rules! api_tests {
    ($target:expr) => {
        $crate::tests! { $target;
            any_clock::a_decision_has_every_field_with_times_in_bounds,
            any_clock::a_delay_is_in_bounds_and_absent_in_shadow_mode,
            any_clock::a_denial_by_one_of_several_limits_charges_none,
            any_clock::a_request_id_is_charged_once,
            any_clock::the_gate_answers_with_times_in_bounds,
            charges::a_key_that_is_named_twice_is_charged_twice,
            charges::a_range_takes_what_there_is,
            charges::a_shadow_among_several_is_decided_apart,
            charges::errors_of_charges_name_the_element,
            charges::errors_of_ranges_name_the_bound,
            charges::ranges_at_once_get_exactly_what_there_is,
            charges::several_keys_are_charged_once_and_given_back_once,
            charges::several_keys_are_charged_together_or_not_at_all,
            charges::two_hundred_at_once_leave_the_other_key_uncharged,
            clients::curl_gets_exactly_the_limit,
            clients::nginx_forwards_exactly_the_limit_and_the_headers_of_denials,
            clients::schemathesis_finds_no_difference_from_the_document,
            decisions::a_batch_is_decided_in_order_and_each_element_fails_alone,
            decisions::errors_name_their_field,
            decisions::peek_forecast_refund_and_reset,
            documents::documents_and_proxies_name_the_headers_that_are_sent,
            documents::every_reply_is_as_documented,
            exact::two_hundred_clients_get_exactly_the_limit,
            garbage::headers_that_are_not_ascii_are_no_obstacle,
            garbage::keys_of_the_gate_are_utf_8,
            garbage::mutated_bodies_are_never_a_failure_of_the_server,
            health::health_and_readiness_need_no_token,
            pages::requests_of_foreign_pages_are_refused,
            pages::where_a_token_is_needed_it_decides_alone,
            policies::a_shadow_decides_and_never_denies,
            policies::keys_can_be_hashed_and_overridden,
            policies::the_policies_in_force_are_listed,
            policies::the_gate_has_a_header_for_each_field,
            refunds::a_caller_passes_the_limit_and_no_more,
            refunds::a_policy_says_who_may_give_back,
            refunds::a_receipt_is_only_for_what_was_charged,
            refunds::what_is_no_receipt_is_refused_on_every_algorithm,
            settle::a_charge_is_settled_down_and_up_and_into_debt,
            settle::a_hundred_at_once_settle_once,
            settle::errors_of_final_costs_name_the_field,
            settle::final_costs_are_named_by_limit,
            settle::only_to_give_back_takes_a_right,
            settle::what_exceeds_the_largest_debt_is_dropped,
            tokens::a_token_for_some_policies_has_no_others,
            tokens::http_needs_a_token_of_the_right_kind,
            tokens::what_a_token_would_permit_is_unauthorized_without_one,
        }
    };
}

/// One test for each case that moves the clock, or needs it to stand still.
#[macro_export]
macro_rules! api_tests_with_clock {
    ($target:expr) => {
        $crate::tests! { $target;
            charges::several_keys_pass_after_the_wait_and_not_earlier,
            decisions::a_decision_has_every_field,
            decisions::a_denied_request_passes_after_its_wait_and_not_earlier,
            decisions::the_gate_answers_by_status_and_headers,
            policies::a_shadow_delays_no_request,
            policies::several_limits_are_charged_together_or_not_at_all,
            settle::a_debt_is_worked_off_to_the_millisecond,
        }
    };
}

/// Tests that call cases with a target.
#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    ($target:expr; $($module:ident::$case:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::$module::$case(&$target).await;
            }
        )*
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_listed() {
        let lists = include_str!("lib.rs");
        let modules = [
            ("any_clock", include_str!("any_clock.rs")),
            ("charges", include_str!("charges.rs")),
            ("clients", include_str!("clients.rs")),
            ("decisions", include_str!("decisions.rs")),
            ("documents", include_str!("documents.rs")),
            ("exact", include_str!("exact.rs")),
            ("garbage", include_str!("garbage.rs")),
            ("health", include_str!("health.rs")),
            ("pages", include_str!("pages.rs")),
            ("policies", include_str!("policies.rs")),
            ("refunds", include_str!("refunds.rs")),
            ("settle", include_str!("settle.rs")),
            ("tokens", include_str!("tokens.rs")),
        ];
        for (module, text) in modules {
            let cases = text.split("\npub async fn ").skip(1);
            let cases = cases.map(|rest| rest.split(['<', '(']).next().unwrap());
            for case in cases {
                assert!(lists.contains(&format!("{module}::{case},\n")), "{module}::{case}");
            }
        }
    }
}

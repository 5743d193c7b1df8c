//! Clocks that differ: no more passes than the most advanced one would admit, and nothing is
//! removed that a clock within the slack could still need.

use serde_json::json;
use tollgate_core::algorithm::Gcra;
use tollgate_core::store::{CallContext, Store};
use tollgate_core::{Admission, Limit, Micros, Quota};
use tollgate_test_servers::shared::dynamodb;
use tollgate_testkit::derive::decisions_of;

use crate::support::{block_on, fresh, now, open, table};

const SECOND: Micros = 1_000_000;
/// The largest difference that is covered.
const SLACK: Micros = 60 * SECOND;

#[test]
fn two_clocks_admit_no_more_than_the_later_one() {
    let url = dynamodb().url(&table());
    block_on(async {
        let stores = [fresh(&url).await, open(&url)];
        let start = now();
        for skew in [SECOND / 20, 10 * SECOND, SLACK - SECOND] {
            let quota = Quota::per_second(10);
            let name = format!("skew-{skew}");
            let limit = Limit::new(&name, Gcra::new(quota).unwrap()).unwrap();
            let charges = [limit.charge("a")];
            let admission = Admission::of(&charges);
            let (mut passed, span) = (0, 2 * SECOND);
            for tick in 0..60 {
                let at = start + tick * span / 60;
                for (store, at) in [(&stores[0], at), (&stores[1], at + skew)] {
                    let outcome = store.admit(&admission, CallContext::at(at)).await.unwrap();
                    passed += u64::from(decisions_of(&admission, &outcome).unwrap().admitted);
                }
            }
            // The burst, once for each clock's first look, and what two seconds give.
            let one_clock = 10 + (skew + span) / (SECOND / 10);
            assert!(passed <= one_clock, "{passed} passed where one clock admits {one_clock}");
            assert!(passed >= 10);
        }
    });
}

#[test]
fn an_item_stays_for_the_slack_after_it_means_nothing() {
    let table = table();
    block_on(async {
        let store = fresh(&dynamodb().url(&table)).await;
        let limit = Limit::new("kept", Gcra::new(Quota::per_minute(60)).unwrap()).unwrap();
        let charges = [limit.charge("a")];
        let admission = Admission::of(&charges);
        let at = now();
        let outcome = store.admit(&admission, CallContext::at(at)).await.unwrap();
        let fresh_at_ms = decisions_of(&admission, &outcome).unwrap().decisions[0].reset_at_ms;
        let name = limit.key("a").to_text();
        let asked = json!({"TableName": table, "Key": {"key": {"S": name}}});
        let item = dynamodb().call("GetItem", &asked).unwrap();
        let expires: u64 = item["Item"]["expires"]["N"].as_str().unwrap().parse().unwrap();
        let needed_until = fresh_at_ms * 1_000 + SLACK;
        let kept_until = expires * SECOND;
        // At most a second and the rounding of milliseconds longer.
        assert!(kept_until + 1_000 > needed_until, "{kept_until} is before {needed_until}");
        assert!(
            kept_until < needed_until + 2 * SECOND,
            "{kept_until} is long after {needed_until}"
        );
    });
}

//! Three servers whose quotas change one after another, and keys that have a state under two
//! quotas.

use std::time::Duration;

use tollgate_core::store::CallContext;
use tollgate_core::{Admission, Code, Cost, Limit, Quota, RequestId};
use tollgate_test_servers::shared;
use tollgate_testkit::helpers::{admitted, spent, take};
use tollgate_testkit::runtime::join_all;
use tollgate_testkit::turns::changed_quotas_never_mint;

use super::{cluster_url, run, store};

fn prefix() -> String {
    format!("turns-{}", std::process::id())
}

fn never_mint(url: &str) {
    let servers = [(); 3].map(|()| store(url));
    let turns =
        run(changed_quotas_never_mint(&servers.each_ref(), &prefix(), CallContext::store_clock));
    println!("{turns:?}");
    assert!(turns.denied > turns.admitted, "{turns:?}");
}

#[test]
fn changed_quotas_never_mint_on_one_server() {
    never_mint(&shared::redis().url());
}

#[test]
fn changed_quotas_never_mint_in_a_cluster() {
    never_mint(&cluster_url(shared::redis_cluster()));
}

/// No script reads such a state, and over slots the record of the request id is written with it.
#[test]
fn a_key_under_two_quotas_is_charged_once_over_slots() {
    let store = store(&cluster_url(shared::redis_cluster()));
    let limit = |policy: &str, units| {
        let month = Quota::new(units, Duration::from_secs(30 * 86_400));
        Limit::gcra(policy, month).unwrap().with_prefix(&prefix()).unwrap()
    };
    let [high, low, beside] =
        [("home", 100), ("home", 10), ("beside", 10)].map(|(policy, units)| limit(policy, units));
    let (units, cx) = (|units| Cost::new(units).unwrap(), CallContext::store_clock);
    let once = |id: &'static str| RequestId::new(id).unwrap();
    run(async {
        assert!(take(&store, high.charge("x").cost(units(90)), cx()).await.unwrap());
        assert!(!take(&store, low.charge("x"), cx()).await.unwrap());
        let charges = [high.charge("x").cost(units(3)), beside.charge("y")];
        let copies = [(); 8].map(|()| Admission::of(&charges).request_id(once("one")));
        let copies = copies.iter().map(|copy| admitted(&store, copy, cx()));
        for copy in join_all(copies).await {
            assert!(copy.unwrap());
        }
        let too_many = [high.charge("x").cost(units(8)), beside.charge("y")];
        let too_many = |id| Admission::of(&too_many).request_id(once(id));
        assert!(!admitted(&store, &too_many("two"), cx()).await.unwrap());
        let other = admitted(&store, &too_many("one"), cx()).await;
        assert_eq!(other.unwrap_err().code(), Code::IdempotencyConflict);
        assert_eq!(spent(&store, high.charge("x"), cx()).await.unwrap(), 93);
        assert_eq!(spent(&store, beside.charge("y"), cx()).await.unwrap(), 1);
    });
}

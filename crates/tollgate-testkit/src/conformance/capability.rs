//! Capability truthfulness: what a store says it cannot do, it refuses with `unsupported`.

use tollgate_core::store::{Bounds, CallContext, MultiKey, Store};
use tollgate_core::{Admission, Code, RequestId};

use super::MONTH;
use super::suite::{START, Suite};
use crate::model::ModelQuota;

/// A store does what its capability says, and answers `unsupported` where it says it cannot.
pub async fn capability_is_truthful<S: Store>(suite: &Suite<'_, S>) {
    let capability = suite.capability();
    assert_eq!(capability, suite.capability(), "a capability is a constant");
    let quota = ModelQuota::Gcra { limit: 10, period_us: MONTH, burst: 10 };
    let limits = ["one", "two"].map(|policy| suite.limit(policy, &quota));
    let [one, two] = &limits;
    let (single, several) = ([one.charge("k")], [one.charge("k"), two.charge("k")]);

    let several = suite.admit(&Admission::of(&several), suite.at(0)).await;
    let refused = several.map_err(|error| error.code()).err();
    let expected = (capability.multi_key == MultiKey::Unsupported).then_some(Code::Unsupported);
    assert_eq!(refused, expected, "several keys under {:?}", capability.multi_key);

    let once = RequestId::new("id").expect("an accepted id");
    let identified = suite.admit(&Admission::of(&single).request_id(once), suite.at(0)).await;
    let refused = identified.map_err(|error| error.code()).err();
    let expected = (!capability.idempotent).then_some(Code::Unsupported);
    assert_eq!(refused, expected, "a request id with idempotent = {}", capability.idempotent);

    if capability.idempotent {
        let bounded = suite.limit("bounded", &quota).bounded(Bounds::new().max_request_ids(100));
        let bounded = suite.charge_once(bounded.charge("k"), once, suite.at(0)).await;
        let refused = bounded.map_err(|error| error.code()).err();
        let expected = (!capability.bounded_ids).then_some(Code::Unsupported);
        assert_eq!(refused, expected, "a bound with bounded_ids = {}", capability.bounded_ids);
    }

    let by_its_clock = suite.store().load(&[one.charge("k")], CallContext::store_clock()).await;
    let refused = by_its_clock.map_err(|error| error.code()).err();
    let expected = (!capability.own_clock).then_some(Code::Unsupported);
    assert_eq!(refused, expected, "its clock with own_clock = {}", capability.own_clock);

    if !suite.injects_time() {
        let given = suite.store().admit(&Admission::of(&single), CallContext::at(START)).await;
        // It may ignore a reading in favour of its own clock, but never decide by a wrong one.
        let decided_by_it = given.is_ok_and(|outcome| outcome.now.reading() == START);
        assert!(!decided_by_it, "decides by readings although it is said not to");
    }
}

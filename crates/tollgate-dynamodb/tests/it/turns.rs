//! Three servers whose quotas change one after another.

use tollgate_core::store::CallContext;
use tollgate_test_servers::shared::dynamodb;
use tollgate_testkit::turns::changed_quotas_never_mint;

use crate::support::{block_on, fresh, now, open, table};

#[test]
fn changed_quotas_never_mint_on_three_servers() {
    let (url, at) = (dynamodb().url(&table()), now());
    let turns = block_on(async {
        let servers = [fresh(&url).await, open(&url), open(&url)];
        changed_quotas_never_mint(&servers.each_ref(), "turns", || CallContext::at(at)).await
    });
    assert!(turns.denied > turns.admitted, "{turns:?}");
}

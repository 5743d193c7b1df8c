//! Three servers whose quotas change one after another.

use tollgate_core::store::CallContext;
use tollgate_test_servers::shared::denokv;
use tollgate_testkit::turns::changed_quotas_never_mint;

use crate::support::{NOW, block_on, name, open};

#[test]
fn changed_quotas_never_mint_on_three_servers() {
    let servers = [(); 3].map(|()| open(&denokv().url()));
    let turns =
        block_on(changed_quotas_never_mint(&servers.each_ref(), &name(), || CallContext::at(NOW)));
    assert!(turns.denied > turns.admitted, "{turns:?}");
}

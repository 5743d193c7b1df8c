//! Three servers whose quotas change one after another.

use tollgate_core::store::CallContext;
use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;
use tollgate_test_servers::shared::postgres;
use tollgate_testkit::turns::changed_quotas_never_mint;

use crate::support::{block_on, config_in, schema};

#[test]
fn changed_quotas_never_mint_on_three_servers() {
    let schema = schema();
    let turns = block_on(async {
        let config = || config_in(&postgres(PgVersion::V15).url(), &schema);
        let first = Postgres::connect(config()).await.unwrap();
        let second = Postgres::connect(config()).await.unwrap();
        let servers = [first, second, Postgres::connect(config()).await.unwrap()];
        changed_quotas_never_mint(&servers.each_ref(), "turns", CallContext::store_clock).await
    });
    assert!(turns.denied > turns.admitted, "{turns:?}");
}

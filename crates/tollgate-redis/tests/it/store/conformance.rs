//! The public suite and the golden vectors, on each kind of server.

use core::future::Ready;

use tollgate_redis::Redis;
use tollgate_testkit::conformance::Options;

type Opened = Ready<Redis>;

fn options() -> Options {
    Options { injects_time: Some(true), ..Options::default() }
}

/// Nothing here is about time: a machine that is busy gets as much as it needs.
fn with_long_timeouts(url: &str) -> Opened {
    let more = if url.contains('?') { '&' } else { '?' };
    let timeouts = "connect_timeout_ms=10000&reply_timeout_ms=10000";
    core::future::ready(super::store(&format!("{url}{more}{timeouts}")))
}

/// The suite as it runs in production: by the server's own clock.
fn by_server_clock() -> Options {
    Options { injects_time: Some(false), ..Options::default() }
}

mod redis_7 {
    use crate::store::run;
    use tollgate_test_servers::shared;

    fn open() -> super::Opened {
        super::with_long_timeouts(&shared::redis().url())
    }

    tollgate_testkit::store_conformance!(runner = run, open = open, options = super::options());
}

mod redis_7_by_its_own_clock {
    use crate::store::{run, store};
    use tollgate_test_servers::shared;
    use tollgate_testkit::conformance as clauses;

    /// Everything that does not move time runs as in production, by the time of the server.
    #[test]
    fn clauses_hold() {
        let store = store(&shared::redis().url());
        macro_rules! each {
            ($($clause:ident)*) => {
                $(run(clauses::$clause(&clauses::Suite::new(&store, super::by_server_clock())));)*
            };
        }
        each! {
            persists isolates_keys reset_clears peek_never_writes denials_write_nothing
            concurrent_applies_read_back_exactly concurrent_checks_admit_exactly all_or_nothing
            all_or_nothing_under_contention two_charges_on_one_key_apply_in_order
            request_id_replays_the_decision request_id_with_another_cost_conflicts
            request_ids_are_scoped_to_their_key request_ids_cover_all_charges
            concurrent_copies_charge_once admit_many_equals_one_by_one user_algorithms_run
            unknown_states_are_refused
        }
        run(clauses::close(&store));
    }
}

mod redis_7_tls_acl {
    use std::sync::LazyLock;

    use crate::store::run;
    use tollgate_test_servers::Redis as Server;

    static SERVER: LazyLock<Server> =
        LazyLock::new(|| Server::builder().tls().user(crate::store::USER).start().unwrap());

    fn open() -> super::Opened {
        let addr = SERVER.addr();
        let files = SERVER.certificates().unwrap();
        let ca = files.authority().display().to_string();
        super::with_long_timeouts(&format!("rediss://limiter:pa55@{addr}?ca={ca}"))
    }

    tollgate_testkit::store_conformance!(runner = run, open = open, options = super::options());
}

mod redis_8 {
    use crate::store::run;
    use tollgate_test_servers::shared;

    fn open() -> super::Opened {
        super::with_long_timeouts(&shared::redis_8().url())
    }

    tollgate_testkit::store_conformance!(runner = run, open = open, options = super::options());
}

mod valkey {
    use std::sync::LazyLock;

    use crate::store::run;
    use tollgate_test_servers::Redis as Server;

    static SERVER: LazyLock<Server> = LazyLock::new(|| Server::builder().valkey().start().unwrap());

    fn open() -> super::Opened {
        super::with_long_timeouts(&SERVER.url())
    }

    tollgate_testkit::store_conformance!(runner = run, open = open, options = super::options());
}

mod cluster {
    use crate::store::{cluster_url, run};
    use tollgate_test_servers::shared;

    fn open() -> super::Opened {
        super::with_long_timeouts(&cluster_url(shared::redis_cluster()))
    }

    tollgate_testkit::store_conformance!(runner = run, open = open, options = super::options());
}

mod cluster_redis_8 {
    use crate::store::{cluster_url, run};
    use tollgate_test_servers::shared;

    fn open() -> super::Opened {
        super::with_long_timeouts(&cluster_url(shared::redis_8_cluster()))
    }

    tollgate_testkit::store_conformance!(runner = run, open = open, options = super::options());
}

mod cluster_tls_acl {
    use std::sync::LazyLock;

    use crate::store::{encrypted_cluster, encrypted_cluster_url, run, store};
    use tollgate_test_servers::RedisCluster;

    static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(|| encrypted_cluster(3));

    fn open() -> super::Opened {
        core::future::ready(store(&encrypted_cluster_url(&CLUSTER)))
    }

    tollgate_testkit::store_conformance!(runner = run, open = open, options = super::options());
}

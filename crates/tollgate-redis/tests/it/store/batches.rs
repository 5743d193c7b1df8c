//! Batches: in order, whatever the server knows of their scripts.

use std::time::Duration;

use tollgate_core::algorithm::Gcra;
use tollgate_core::{Cost, Limit, Limiter, Quota, RequestId, Verdict};
use tollgate_redis::Redis;
use tollgate_test_servers::Redis as Server;

use super::{run, store};

/// Long enough for anything: several tests share a machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(20);

fn limiter(redis: &Server) -> Limiter<Redis> {
    Limiter::builder(store(&redis.url())).deadline(LONG_TIMEOUT).build()
}

/// The script of the second admission is known, that of the first is not.
#[test]
fn a_script_that_is_new_to_the_server_does_not_fall_behind() {
    let redis = Server::start().unwrap();
    let limit = Limit::new("batch", Gcra::new(Quota::per_hour(10)).unwrap()).unwrap();
    run(async {
        let before = limiter(&redis);
        for _ in 0..2 {
            before.check(limit.charge("another")).await.unwrap();
        }
        let all = limit.charge("ada").cost(Cost::new(10).unwrap());
        let one = limit.charge("ada").request_id(RequestId::new("first").unwrap());
        let decided = limiter(&redis).check_batch([one, all.into()]).await;
        let verdicts: Vec<Verdict> =
            decided.into_iter().map(|decision| decision.unwrap().verdict).collect();
        assert_eq!(verdicts, [Verdict::Allowed, Verdict::Denied]);
    });
}

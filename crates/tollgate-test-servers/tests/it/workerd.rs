//! workerd: a Worker is built and answers, counts exactly, outlives a panic, and keeps its storage.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use tollgate_test_servers::Error;
use tollgate_test_servers::wait::until_ok;
use tollgate_test_servers::workerd::{WorkerSpec, Workerd, build};

use super::leaves_nothing;

/// How long a line may take to be in the log.
const LOGGED: Duration = Duration::from_secs(20);

/// The Worker in `tests/worker`, with one kind of storage.
pub(crate) fn counter(is_sqlite: bool) -> Workerd {
    let spec = WorkerSpec {
        folder: build("tollgate-counter-worker").unwrap(),
        durable_objects: vec![("COUNTER", "Counter", is_sqlite)],
        vars: vec![("TEXT", "a text".into())],
        ..WorkerSpec::default()
    };
    Workerd::start(&spec).unwrap()
}

fn ok(text: &str) -> (u16, String) {
    (200, text.to_owned())
}

#[test]
fn concurrent_requests_are_counted_exactly_and_a_crash_loses_none() {
    for is_sqlite in [false, true] {
        leaves_nothing(counter(is_sqlite), |worker| {
            assert_eq!(worker.get("/text").unwrap(), ok("a text"));
            let counts: BTreeSet<u64> = thread::scope(|scope| {
                let count = || worker.get("/count").unwrap().1.parse().unwrap();
                let requests = [(); 64].map(|()| scope.spawn(count));
                requests.into_iter().map(|request| request.join().unwrap()).collect()
            });
            assert_eq!(counts, (1..=64).collect());
            worker.restart().unwrap();
            assert_eq!(worker.get("/count").unwrap(), ok("65"));
        });
    }
}

#[test]
fn a_panic_fails_one_request_and_is_in_the_log() {
    leaves_nothing(counter(true), |worker| {
        for turn in 1..=3 {
            assert_eq!(worker.get("/panic").unwrap().0, 500);
            assert_eq!(worker.get("/text").unwrap(), ok("a text"));
            assert_eq!(worker.get("/count").unwrap(), ok(&turn.to_string()));
        }
        assert!(worker.log().contains("panicked at"), "{}", worker.log());
    });
}

/// The runtime answers no request to an object that has panicked, as with the shim of worker-build.
#[test]
fn a_panic_in_an_object_leaves_the_next_request_working() {
    leaves_nothing(counter(true), |worker| {
        assert_eq!(worker.get("/count").unwrap(), ok("1"));
        let mut unanswered = TcpStream::connect(worker.addr()).unwrap();
        unanswered.write_all(b"GET /panic-in-object HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        until_ok(LOGGED, || match worker.log().contains("panicked at") {
            true => Ok(()),
            false => Err(Error::new("the panic is not in the log")),
        })
        .unwrap();
        assert_eq!(worker.get("/count").unwrap(), ok("2"));
        assert_eq!(worker.get("/text").unwrap(), ok("a text"));
    });
}

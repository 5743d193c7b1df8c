//! Breakers, shares and the names of errors, apart from any store.

use core::time::Duration;

use super::FailurePolicy;
use super::breaker::{Breaker, BreakerConfig, Span};
use super::breakers::{Breakers, CallOutcome};
use super::local::Share;
use crate::error::{Code, Error};
use crate::store::{Endpoint, LastAnswer};
use crate::time::Micros;

const NEVER: BreakerConfig =
    BreakerConfig { failures: 1_000, open_for: Duration::from_millis(100) };
const DEADLINE: Micros = 100;

fn span(begun: Micros, ended: Micros) -> Span {
    Span { begun, ended, deadline: DEADLINE }
}

/// Whether a breaker that opens for silence alone is open after calls without an answer: silence is
/// two and a half deadlines.
fn is_open_after(spans: &[(Micros, Micros)]) -> bool {
    let (breaker, why) = (Breaker::new(NEVER), Error::new(Code::Timeout, "no answer"));
    for (begun, ended) in spans {
        breaker.failed(false, span(*begun, *ended), &why);
    }
    breaker.enter(spans.last().map_or(0, |(_, ended)| *ended)).is_none()
}

#[test]
fn silence_is_counted_while_calls_follow_each_other_within_a_deadline() {
    let (first, second) = ((1_000, 1_100), (1_200, 1_300));
    assert!(is_open_after(&[first, second]), "a deadline apart");
    assert!(!is_open_after(&[first, (1_201, 1_301)]), "more than that");
    assert!(!is_open_after(&[first, (5_000, 5_100)]), "much more than that");
    assert!(!is_open_after(&[first, (1_100, 1_200)]), "not for long enough");
}

/// What was noted before a step back of the clock says nothing about the time after it.
#[test]
fn silence_is_counted_anew_after_a_clock_stepped_back() {
    let later = (5_000, 5_100);
    assert!(is_open_after(&[later, (1_000, 1_100), (1_150, 1_250)]));
    assert!(!is_open_after(&[later, (1_000, 1_100), (1_149, 1_249)]));
    // A call that ended when the silence began is no step back.
    assert!(!is_open_after(&[(1_000, 1_100), (900, 1_000), (1_050, 1_150)]));
}

#[test]
fn an_answer_ends_a_silence() {
    let (breaker, why) = (Breaker::new(NEVER), Error::new(Code::Timeout, "no answer"));
    breaker.failed(false, span(1_000, 1_100), &why);
    breaker.answered();
    breaker.failed(false, span(1_190, 1_290), &why);
    assert_eq!(breaker.enter(1_290), Some(false), "100 microseconds of silence, not 290");
}

/// Of 64 times between two probes, not one of the second half: a chance of 2^-64.
#[test]
fn the_time_between_two_probes_varies_on_both_sides() {
    let breaker = Breaker::new(BreakerConfig { failures: 1, ..NEVER });
    let why = Error::new(Code::StoreUnavailable, "down");
    let waits: Vec<Micros> = (1..=64)
        .map(|event| {
            let at = event * 1_000_000;
            breaker.failed(false, span(at, at), &why);
            breaker.closed_until(at) - at
        })
        .collect();
    assert!(waits.iter().all(|wait| (75_000..=125_000).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait > 100_000), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait < 100_000), "{waits:?}");
}

/// Two keys of one server are one call to it: it tries once whether the server is back.
#[test]
fn a_call_enters_each_of_its_servers_once() {
    let breakers = Breakers::new(BreakerConfig { failures: 1, ..NEVER });
    let (server, other) = (Endpoint::numbered(1), Endpoint::numbered(2));
    let why = Error::new(Code::StoreUnavailable, "down");
    let pass = breakers.pass([server], 0).unwrap();
    pass.report(CallOutcome::Outage(&why), span(0, 100));
    drop(pass);
    assert!(breakers.pass([server, other], 100).is_err());
    let is_back = 1_000_000;
    assert!(breakers.pass([server, other, server, other], is_back).is_ok());
}

#[test]
fn a_share_of_units_is_rounded_up() {
    let two_thirds = Share::new(2, 3).unwrap();
    assert_eq!([0, 1, 3, 9, 10].map(|units| two_thirds.of(units)), [0, 1, 2, 6, 7]);
}

#[test]
fn an_expired_deadline_names_the_server_that_answers_too_late() {
    let policy = FailurePolicy::default();
    let late = || Some(LastAnswer::new("db:1", Duration::from_millis(250)));
    let expired = || Error::new(Code::Timeout, "no answer in time").made_here();
    let named = policy.named(expired(), late).message().to_owned();
    let expected = "db:1 is too slow: it answered after 250 ms, the deadline is 100 ms; ";
    assert_eq!(named, format!("{expected}the charge may be spent"));
    let named = policy.named(expired().not_sent(), late).message().to_owned();
    assert_eq!(named, format!("{expected}nothing was charged"));
    assert_eq!(policy.named(expired(), || None).message(), "no answer in time");
    for other in [
        Error::new(Code::Timeout, "no answer in time"),
        Error::new(Code::QueueFull, "no answer in time").made_here(),
    ] {
        assert_eq!(policy.named(other, late).message(), "no answer in time");
    }
}

//! The commands that most clients send most of the time, `TG.ACQUIRE policy key [cost]` and
//! `CL.THROTTLE` with its five integers: answered from the input into the output, without a copy of
//! a word, where the store is in this process.
//!
//! A command that is anything else, or is incomplete or invalid, is left to the other commands of
//! this protocol, which have the errors. So both answer the same.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate::{Cost, Limit, Quota, Verdict};
use tollgate_service::Policies;
use tollgate_service::engine::{CheckRequest, CheckResponse, RequestedCharge, Target};

use super::check::failed;
use super::reply::Version;
use super::session::Session;

/// The most words of a command here.
const WORDS_MAX: usize = 6;
/// The longest word here: longer ones are in error, or rare.
const WORD_MAX_BYTES: usize = 4 * 1024;

/// A command, with its words where they are in the input.
struct Direct<'a> {
    charge: Charged<'a>,
    /// The bytes of the command.
    length: usize,
}

enum Charged<'a> {
    Policy { policy: &'a str, key: &'a str, cost: Cost },
    AdHoc { key: &'a str, burst: u64, count: u64, period_s: u64, cost: Cost },
}

/// The limit of the last `CL.THROTTLE`, and what it was made from: most clients send one quota all
/// the time.
#[derive(Debug)]
pub(super) struct LastLimit {
    numbers: (u64, u64, u64),
    policies: Arc<Policies>,
    limit: Limit,
}

/// Whether the input begins with such a command.
pub(super) fn is_next(input: &[u8]) -> bool {
    Direct::read(input).is_some()
}

impl Session {
    /// Whether commands can be answered here at all.
    pub(super) fn is_direct(&self) -> bool {
        // After a reload the rights are to be found anew.
        let has_rights = self.rights.is_some() && Arc::ptr_eq(&self.auth, &self.app.auth());
        let is_open = has_rights && self.transaction.is_none();
        let is_short = self.version == Version::Two && self.app.telemetry.traces.is_none();
        is_open && is_short && self.app.engine().in_process()
    }

    /// Answers the commands at the beginning of the input, at most this many; the bytes and the
    /// number of those that were answered.
    pub(super) async fn answer_direct(
        &mut self,
        input: &[u8],
        most: usize,
        output: &mut Vec<u8>,
    ) -> (usize, usize) {
        let start = Instant::now();
        let (mut bytes, mut commands) = (0, 0);
        while commands < most
            && let Some(rest) = input.get(bytes..)
            && let Some(direct) = Direct::read(rest)
            && self.decide_direct(&direct, output).await.is_some()
        {
            bytes += direct.length;
            commands += 1;
        }
        if commands > 0 {
            self.client.made_valid_request();
            self.app.telemetry.metrics.request("resp", start.elapsed());
        }
        (bytes, commands)
    }

    /// Decides a command, and writes its reply; `None` if it is not to be decided here.
    async fn decide_direct(&mut self, direct: &Direct<'_>, output: &mut Vec<u8>) -> Option<()> {
        let (charge, is_throttle) = match direct.charge {
            Charged::Policy { policy, key, cost } => {
                (RequestedCharge::new(policy, key).cost(cost), false)
            }
            Charged::AdHoc { key, burst, count, period_s, cost } => {
                self.prepare_limit((burst, count, period_s))?;
                let limit = &self.last_limit.as_ref()?.limit;
                (RequestedCharge::under(Target::Limit(limit), key).cost(cost), true)
            }
        };
        let engine = self.app.engine();
        let policies = &self.rights.as_ref()?.policies;
        // Its reply has no place for a delay.
        let request = CheckRequest::one(charge).carries_delay(false).within(policies);
        let result = match engine.acquire_now(&request) {
            Some(result) => result,
            None => engine.acquire(request).await,
        };
        match (result, is_throttle) {
            (Ok(response), true) => put(throttled(&response, engine.now_ms_up()), output),
            (Ok(response), false) => put(acquired(&response), output),
            (Err(failure), _) => self.write(&failed(&failure), output),
        }
        Some(())
    }

    /// Makes the limit of a quota in a command, if it is valid.
    fn prepare_limit(&mut self, numbers: (u64, u64, u64)) -> Option<()> {
        let policies = self.app.engine().policies();
        let is_same =
            |last: &LastLimit| last.numbers == numbers && Arc::ptr_eq(&last.policies, &policies);
        if !self.last_limit.as_ref().is_some_and(is_same) {
            let (burst, count, period_s) = numbers;
            let quota = Quota::new(count, Duration::from_secs(period_s));
            let limit = policies.ad_hoc_limit(quota, burst.saturating_add(1)).ok()?;
            self.last_limit = Some(LastLimit { numbers, policies, limit });
        }
        Some(())
    }
}

impl<'a> Direct<'a> {
    /// Reads the command at the beginning of the input.
    fn read(input: &'a [u8]) -> Option<Self> {
        let (words, length) = words(input)?;
        let charge = match words {
            [name, policy, key, cost, None, None] if name?.eq_ignore_ascii_case(b"TG.ACQUIRE") => {
                Charged::Policy { policy: text(policy?)?, key: text(key?)?, cost: units(cost)? }
            }
            [name, key, burst, count, period, quantity]
                if name?.eq_ignore_ascii_case(b"CL.THROTTLE") =>
            {
                let (burst, count) = (whole(burst?)?, whole(count?)?);
                let (key, period_s, cost) = (text(key?)?, whole(period?)?, units(quantity)?);
                Charged::AdHoc { key, burst, count, period_s, cost }
            }
            _ => return None,
        };
        Some(Self { charge, length })
    }
}

/// The words of an array that is complete, and its length.
fn words(input: &[u8]) -> Option<([Option<&[u8]>; WORDS_MAX], usize)> {
    let (count, mut at) = header(input, b'*')?;
    let mut words = [None; WORDS_MAX];
    for word in words.get_mut(..count)? {
        let (length, start) = header(input.get(at..)?, b'$')?;
        let (from, to) = (at + start, at + start + length);
        *word = Some(input.get(from..to)?);
        if input.get(to..to + 2)? != b"\r\n" {
            return None;
        }
        at = to + 2;
    }
    Some((words, at))
}

/// A kind and a small number, and the length of both.
fn header(input: &[u8], kind: u8) -> Option<(usize, usize)> {
    let (_, rest) = input.split_first().filter(|(first, _)| **first == kind)?;
    let digits = rest.iter().take(5).position(|byte| *byte == b'\r')?;
    let number = whole(rest.get(..digits)?)?;
    if rest.get(digits + 1) != Some(&b'\n') {
        return None;
    }
    let number = usize::try_from(number).ok().filter(|number| *number <= WORD_MAX_BYTES)?;
    Some((number, digits + 3))
}

fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

fn whole(word: &[u8]) -> Option<u64> {
    // A number of eighteen digits fits.
    if word.is_empty() || word.len() > 18 {
        return None;
    }
    word.iter().try_fold(0, |number: u64, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

/// The units of a word; one without it.
fn units(word: Option<&[u8]>) -> Option<Cost> {
    word.map_or(Some(Cost::ONE), |word| Cost::new(whole(word)?).ok())
}

/// The five numbers of `TG.ACQUIRE`.
fn acquired(response: &CheckResponse) -> [i64; 5] {
    let decision = &response.decision;
    [
        i64::from(decision.is_allowed()),
        int(decision.limit),
        int(decision.remaining),
        decision.retry_after_ms.map_or(-1, int),
        int(decision.reset_at_ms),
    ]
}

/// The five numbers of `CL.THROTTLE`: whole seconds, and no wait if waiting is useless.
fn throttled(response: &CheckResponse, now_ms: u64) -> [i64; 5] {
    let decision = &response.decision;
    let wait_s = match decision.verdict {
        Verdict::Denied => int(decision.retry_after_ms.unwrap_or(0).div_ceil(1_000)),
        Verdict::Allowed | Verdict::Never => -1,
    };
    [
        i64::from(!decision.is_allowed()),
        int(decision.limit),
        int(decision.remaining),
        wait_s,
        int(decision.reset_at_ms.saturating_sub(now_ms).div_ceil(1_000)),
    ]
}

fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn put(numbers: [i64; 5], output: &mut Vec<u8>) {
    output.extend_from_slice(b"*5\r\n");
    for number in numbers {
        output.push(b':');
        output.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        output.extend_from_slice(b"\r\n");
    }
}

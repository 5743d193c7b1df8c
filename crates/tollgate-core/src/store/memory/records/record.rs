//! What is kept of a request id, in as few bytes as it needs.
//!
//! # Layout
//! Six numbers of 32 bits: three of the hash of the id, the payload, the key, and the length in
//! steps. Behind them LEB128 numbers: the instant of the charge, since the first of the partition;
//! how long it is kept; the floor of that instant; how many charges there are; and for each its
//! quota and the state of its key before. A quota is its place in the list of the partition. A word
//! of a state is written as it is or as its distance from the instant of the charge, whichever is
//! shorter: most are instants nearby. So one charge of a schedule takes 48 bytes.
//!
//! The id and the payload are kept as hashes under a secret of the process: 96 bits, and 32 more of
//! the key, tell ids apart; 32 bits tell payloads apart, which is exact for the usual payload, a
//! cost.

use super::log::STEP;
use crate::state::{QuotaId, QuotaState, State, Words};
use crate::store::Evidence;
use crate::time::{Micros, Now};

/// The bytes of the numbers at the front.
pub(super) const HEAD: usize = 24;
/// Quotas in the list of a partition; the numbers of others are written out.
const QUOTAS_MAX: usize = 64;
/// In place of the place of a quota: there is no state.
const NO_STATE: u64 = 0;
/// In place of the place of a quota: its numbers follow.
const WRITTEN_OUT: u64 = 1;

/// The hashes by which a request id is found, and that of what it was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct IdHash {
    /// Where it is in the index.
    pub(super) hash: u32,
    pub(super) rest: [u32; 2],
    /// 32 bits of the fingerprint of the key.
    pub(super) key: u32,
    /// In which partition the key is.
    pub(super) partition: usize,
}

/// The numbers at the front of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) id: [u32; 3],
    pub(super) payload: u32,
    pub(super) key: u32,
    /// The bytes of the record.
    pub(super) len: usize,
}

impl Head {
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let (numbers, _) = bytes.split_first_chunk::<HEAD>()?;
        let (numbers, _) = numbers.as_chunks::<4>();
        let mut numbers = numbers.iter().map(|number| u32::from_le_bytes(*number));
        let mut next = || numbers.next();
        let id = [next()?, next()?, next()?];
        let (payload, key, steps) = (next()?, next()?, next()?);
        Some(Self { id, payload, key, len: usize::try_from(steps).ok()? * STEP })
    }

    pub(super) fn is_of(&self, id: &IdHash) -> bool {
        self.id == [id.hash, id.rest[0], id.rest[1]] && self.key == id.key
    }
}

/// What all records of a partition have in common.
#[derive(Debug, Default)]
pub(super) struct Common {
    /// The instant of the first charge.
    base: Option<Micros>,
    quotas: Vec<QuotaId>,
}

/// What is kept of an admission, before it is written.
pub(super) struct Contents<'a> {
    pub(super) outcome: &'a Evidence,
    /// The quota of each charge.
    pub(super) quota_ids: &'a [QuotaId],
    pub(super) expires_at: Micros,
}

impl Common {
    /// The bytes of a record.
    pub(super) fn encode(&mut self, id: &IdHash, payload: u32, contents: &Contents<'_>) -> Vec<u8> {
        let now = contents.outcome.now;
        let base = *self.base.get_or_insert(now.reading());
        let mut out = Writer { bytes: vec![0; HEAD], now: now.reading() };
        out.distance(base, now.reading());
        out.number(contents.expires_at.wrapping_sub(now.reading()));
        // A floor is no earlier than the reading, or there is none.
        out.number(now.effective() - now.reading());
        out.number(contents.quota_ids.len() as u64);
        for (quota_id, before) in contents.quota_ids.iter().zip(&contents.outcome.before) {
            self.quota(*quota_id, &mut out);
            match before {
                None => out.number(NO_STATE),
                Some(state) => self.state(state, &mut out),
            }
        }
        let mut bytes = out.bytes;
        bytes.resize(bytes.len().next_multiple_of(STEP), 0);
        let steps = u32::try_from(bytes.len() / STEP).unwrap_or(u32::MAX);
        let head = [id.hash, id.rest[0], id.rest[1], payload, id.key, steps];
        let head = head.into_iter().flat_map(u32::to_le_bytes);
        bytes.iter_mut().zip(head).for_each(|(byte, number)| *byte = number);
        bytes
    }

    fn quota(&mut self, quota_id: QuotaId, out: &mut Writer) {
        let mut place = self.quotas.iter().position(|known| *known == quota_id);
        if place.is_none() && self.quotas.len() < QUOTAS_MAX {
            self.quotas.push(quota_id);
            place = Some(self.quotas.len() - 1);
        }
        match place {
            Some(place) => out.number(WRITTEN_OUT + 1 + place as u64),
            None => {
                out.number(WRITTEN_OUT);
                quota_id.0.into_iter().for_each(|number| out.number(number));
            }
        }
    }

    fn state(&mut self, state: &State, out: &mut Writer) {
        self.quota(state.quota_id, out);
        let has_others = u64::from(!state.others.is_empty());
        out.number((state.words.len() as u64) << 1 | has_others);
        state.words.iter().for_each(|word| out.word(*word));
        if has_others == 1 {
            out.number(state.others.len() as u64);
        }
        for QuotaState { quota_id, words } in &state.others {
            self.quota(*quota_id, out);
            out.number(words.len() as u64);
            words.iter().for_each(|word| out.word(*word));
        }
    }

    /// When a record expires.
    pub(super) fn expires_at(&self, bytes: &[u8]) -> Option<Micros> {
        let mut rest = Reader { bytes: bytes.get(HEAD..)?, now: 0 };
        let reading = rest.distance(self.base?)?;
        Some(reading.wrapping_add(rest.number()?))
    }

    /// The evidence of a record.
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<Evidence> {
        let mut rest = Reader { bytes: bytes.get(HEAD..)?, now: 0 };
        let reading = rest.distance(self.base?)?;
        rest.now = reading;
        rest.number()?;
        let now = match rest.number()? {
            0 => Now::at(reading),
            floor => Now::at(reading).not_before(reading.checked_add(floor)?),
        };
        let count = rest.number()?;
        let (mut before, mut quota_ids) = (Vec::new(), Vec::new());
        for _ in 0..count {
            quota_ids.push(self.read_quota(&mut rest)??);
            before.push(self.read_state(&mut rest)?);
        }
        Some(Evidence::replayed(now, before, quota_ids))
    }

    /// A quota; an inner `None` in place of one.
    fn read_quota(&self, rest: &mut Reader<'_>) -> Option<Option<QuotaId>> {
        match rest.number()? {
            NO_STATE => Some(None),
            WRITTEN_OUT => {
                let mut next = || rest.number();
                Some(Some(QuotaId([next()?, next()?, next()?, next()?])))
            }
            place => {
                let place = usize::try_from(place - WRITTEN_OUT - 1).ok()?;
                self.quotas.get(place).copied().map(Some)
            }
        }
    }

    fn read_state(&self, rest: &mut Reader<'_>) -> Option<Option<State>> {
        let Some(quota_id) = self.read_quota(rest)? else { return Some(None) };
        let head = rest.number()?;
        let mut state = State::new(quota_id, rest.words(head >> 1)?);
        let others = if head & 1 == 1 { rest.number()? } else { 0 };
        for _ in 0..others {
            let quota_id = self.read_quota(rest)??;
            let len = rest.number()?;
            state.others.push(QuotaState { quota_id, words: rest.words(len)? });
        }
        Some(Some(state))
    }
}

struct Writer {
    bytes: Vec<u8>,
    now: Micros,
}

impl Writer {
    fn number(&mut self, number: u64) {
        self.wide(number.into());
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
    fn wide(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn distance(&mut self, from: u64, to: u64) {
        self.number(zigzag(to.wrapping_sub(from)));
    }

    /// A word, or its distance from the instant of the charge: the lowest bit says which.
    fn word(&mut self, word: u64) {
        let distance = zigzag(word.wrapping_sub(self.now));
        let (number, is_distance) = if distance < word { (distance, 1) } else { (word, 0) };
        self.wide(u128::from(number) << 1 | is_distance);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    now: Micros,
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        u64::try_from(self.wide()?).ok()
    }

    fn wide(&mut self) -> Option<u128> {
        let mut number = 0;
        for shift in (0..u128::BITS).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u128::from(byte & 0x7F) << shift;
            if *byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn distance(&mut self, from: u64) -> Option<u64> {
        Some(from.wrapping_add(unzigzag(self.number()?)))
    }

    fn words(&mut self, len: u64) -> Option<Words> {
        let mut words = Vec::new();
        for _ in 0..len {
            let wide = self.wide()?;
            let number = u64::try_from(wide >> 1).ok()?;
            let is_distance = wide & 1 == 1;
            words.push(if is_distance { self.now.wrapping_add(unzigzag(number)) } else { number });
        }
        Some(words.into())
    }
}

/// A difference modulo 2^64, so that small ones of either sign are small numbers.
const fn zigzag(difference: u64) -> u64 {
    let sign = 0_u64.wrapping_sub(difference >> 63);
    (difference << 1) ^ sign
}

const fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ 0_u64.wrapping_sub(number & 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        const AT: Micros = 1_800_000_000_000_000;
        let quota = |tag| QuotaId([tag, 1, u64::MAX, 3]);
        let mut long = State::new(quota(2), Words::new(&[0, 1, u64::MAX, AT, AT - 1, AT + 60]));
        long.others = vec![QuotaState { quota_id: quota(1), words: Words::new(&[AT - 7, 9]) }];
        let states = [None, Some(State::new(quota(1), Words::new(&[]))), Some(long)];
        let id = IdHash { hash: 1, rest: [2, 3], key: 4, partition: 0 };
        let mut common = Common::default();
        for (round, now) in [AT, 0, AT + 5, crate::time::MICROS_MAX - 1].into_iter().enumerate() {
            for (floor, count) in [(0, 0), (now + 9, 3), (now, 100)] {
                let before: Vec<_> = states.iter().cycle().take(count).cloned().collect();
                let quota_ids: Vec<QuotaId> = (0..count as u64).map(quota).collect();
                let now = Now::at(now).not_before(floor);
                let outcome = Evidence::decided(now, before.clone());
                let expires_at = u64::MAX - round as u64;
                let contents = Contents { outcome: &outcome, quota_ids: &quota_ids, expires_at };
                let bytes = common.encode(&id, 77, &contents);
                let head = Head::of(&bytes).unwrap();
                assert!(head.is_of(&id));
                assert_eq!((head.payload, head.len), (77, bytes.len()));
                assert_eq!(common.expires_at(&bytes), Some(expires_at));
                let read = common.decode(&bytes).unwrap();
                assert_eq!(read.before, before);
                assert_eq!(read.replayed, Some(quota_ids));
                assert_eq!(
                    (read.now.reading(), read.now.effective()),
                    (now.reading(), now.effective())
                );
            }
        }
        assert_eq!(common.quotas.len(), QUOTAS_MAX, "the list of quotas is bounded");
    }
}

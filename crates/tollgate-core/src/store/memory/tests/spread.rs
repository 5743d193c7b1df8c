//! No two keys share a fingerprint, and positions are even.

use std::collections::{HashMap, HashSet};

use super::super::fingerprint::{Id, Secrets};
use super::super::table::{KeyHash, WINDOW};
use super::*;

fn id(prefix: &str, policy: &str, subject: &str) -> Id {
    let secrets = Secrets::of_process();
    secrets.id(secrets.scope(prefix, policy), subject)
}

#[test]
fn a_million_similar_keys_all_differ() {
    let mut rng = Rng::new("a_million_similar_keys");
    let (mut ids, mut keys) = (HashSet::new(), 0);
    let mut add = |id: Id| {
        keys += 1;
        ids.insert((id.low, id.high));
    };
    // The same text, cut into prefix, policy and subject at every place.
    let text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for first in 1..=40 {
        for second in first + 1..=text.len().min(first + 64) {
            add(id(&text[..first], &text[first..second], &text[second..]));
        }
    }
    add(id("p", "q", ""));
    // Every length, of characters that could pass for padding or for a marker.
    for filler in ["\0", "\u{1}", "\u{8}", "\t", "b", "\u{7F}"] {
        for length in 1..2_000 {
            add(id("p", "q", &filler.repeat(length)));
        }
    }
    // One bit apart, at every place of a long subject, and two bits apart in a short one.
    let long = "0".repeat(1_500);
    for place in 0..long.len() * 7 {
        add(id("p", "r", &with_bits_flipped(&long, &[place])));
    }
    let short = "0".repeat(50);
    for one in 0..350 {
        for other in 0..one {
            add(id("p", "s", &with_bits_flipped(&short, &[one, other])));
        }
    }
    for number in 0..600_000_u64 {
        add(id("p", "t", &number.to_string()));
    }
    for _ in 0..400_000 {
        add(id("p", "u", &format!("{:016x}", rng.next())));
    }
    assert!(keys > 1_000_000);
    assert_eq!(ids.len(), keys);
}

/// Seven bits of each character, so that the text stays text.
fn with_bits_flipped(text: &str, bits: &[usize]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for bit in bits {
        bytes[bit / 7] ^= 1 << (bit % 7);
    }
    String::from_utf8(bytes).unwrap()
}

/// Puts keys into cells; the chi-square statistic must be within six sigmas of its mean.
fn is_even(name: &str, cells: usize, positions: impl Iterator<Item = usize>) {
    let mut counts = vec![0_u64; cells];
    positions.for_each(|cell| counts[cell] += 1);
    let total: u64 = counts.iter().sum();
    let mean = total as f64 / cells as f64;
    let chi: f64 = counts.iter().map(|count| (*count as f64 - mean).powi(2) / mean).sum();
    let sigmas = (chi - (cells - 1) as f64) / (2.0 * (cells - 1) as f64).sqrt();
    println!("{name}: {total} keys in {cells} cells, {sigmas:.1} sigmas from even");
    assert!(sigmas < 6.0, "{name}");
}

type Subject = Box<dyn Fn(u64) -> String>;

#[test]
fn positions_are_even() {
    const KEYS: u64 = 300_000;
    const HOMES_OF_CELL: usize = 32;
    let mut rng = Rng::new("positions_are_even");
    let random: Vec<u64> = (0..KEYS).map(|_| rng.next()).collect();
    let memory = store(100_000);
    let limit = limit_of(&rules(5, Duration::from_secs(60))[0].1);
    let table = table(&memory, &limit);
    let numbers = numbered(table);
    let cells = table.homes_of(0) / HOMES_OF_CELL;
    assert_eq!(table.homes_of(0) % HOMES_OF_CELL, 0, "equal cells");
    let subjects: [(&str, Subject); 5] = [
        ("sequential", Box::new(|number| format!("user:{number}"))),
        ("addresses", Box::new(|n| format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255))),
        ("padded", Box::new(|number| format!("{number:064}"))),
        ("one word, low bytes differ", Box::new(|number| format!("{number:07}"))),
        (
            "random",
            Box::new(move |number| format!("{:x}", random[usize::try_from(number).unwrap()])),
        ),
    ];
    for (name, subject) in &subjects {
        let hashes: Vec<_> =
            (0..KEYS).map(|key| table.hash_of(id("tollgate", "p", &subject(key)))).collect();
        is_even(&format!("{name}, shards"), 64, hashes.iter().map(|hash| hash.shard));
        let lines = |hash: &KeyHash| {
            let line = |nth| std::ptr::from_ref(table.lines_at(*hash).nth(nth).unwrap().1).addr();
            [0, 32].map(|nth| {
                let (shard, number) = numbers[&line(nth)];
                assert_eq!(shard, hash.shard);
                number
            })
        };
        let lines: Vec<[usize; 2]> = hashes.iter().map(lines).collect();
        let cell = |number: usize| number / HOMES_OF_CELL;
        let first = lines.iter().map(|[first, _]| cell(*first));
        is_even(&format!("{name}, first lines"), cells, first);
        let joint = lines.iter().zip(&hashes).map(|([first, _], at)| cell(*first) * 64 + at.shard);
        is_even(&format!("{name}, first lines and shards"), cells * 64, joint);
        let both = lines.iter().map(|[first, second]| cell(*first) * cells + cell(*second));
        is_even(&format!("{name}, both windows"), cells * cells, both);
    }
}

/// Grows every shard to its bound, and numbers the homes: by their addresses, shard and number.
fn numbered(table: &Table) -> HashMap<usize, (usize, usize)> {
    let mut numbers = HashMap::new();
    for shard in 0..table.shards() {
        table.reserve(shard).unwrap();
        while table.double(shard).is_some() {}
        let lines: Vec<_> = table.lines_of(shard).collect();
        // A line is a home if a whole window of its segment begins there.
        let windows = lines.windows(WINDOW).filter(|window| {
            let ((first, _), (last, _)) = (window[0], window[WINDOW - 1]);
            first.segment == last.segment
        });
        for (number, window) in windows.enumerate() {
            numbers.insert(std::ptr::from_ref(window[0].1).addr(), (shard, number));
        }
        assert_eq!(numbers.len(), (shard + 1) * table.homes_of(shard));
    }
    numbers
}

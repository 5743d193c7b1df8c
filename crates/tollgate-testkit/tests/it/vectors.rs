//! The committed golden vectors are what the model says, and cover what they must.

use tollgate_core::Verdict;
use tollgate_testkit::model::Kind;
use tollgate_testkit::vectors::{
    Op, Vector, VectorFile, committed, committed_source, files_table, generate, golden_vectors,
};

#[test]
fn committed_files_equal_a_fresh_generation() {
    let listed = include_str!("../../src/vectors/committed.rs");
    assert!(listed == committed_source(), "committed.rs is stale: run `cargo xtask generate`");
    let fresh = generate();
    assert_eq!(fresh.len(), Kind::ALL.len());
    for (file, text) in fresh.iter().zip(committed()) {
        assert!(
            file.to_json() == *text,
            "{} is stale: run `cargo xtask generate`",
            file.file_name()
        );
        // The text form has the name that the algorithm has everywhere.
        let named = format!("\"quota\":{{\"algorithm\":\"{}\"", file.algorithm.name());
        assert!(text.contains(&named), "{}", file.file_name());
        assert_eq!(VectorFile::from_json(text).as_ref(), Ok(file), "{}", file.file_name());
    }
}

#[test]
fn the_table_of_files_is_current() {
    let readme = include_str!("../../vectors/README.md");
    assert!(readme.contains(&files_table()), "README.md is stale: run `cargo xtask generate`");
}

#[test]
fn every_file_covers_every_case() {
    let files = golden_vectors();
    let mut all = 0;
    for file in &files {
        let decisions: Vec<_> = file.groups.iter().flat_map(|group| &group.decisions).collect();
        all += decisions.len();
        let count = |verdict| decisions.iter().filter(|v| v.decision.verdict == verdict).count();
        for verdict in [Verdict::Allowed, Verdict::Denied, Verdict::Never] {
            assert!(count(verdict) >= 10, "{} {verdict:?}", file.file_name());
        }
        assert!(decisions.iter().any(|vector| vector.op == Op::Peek));
        let settled = |vector: &&&Vector| vector.settled.is_some();
        assert!(decisions.iter().filter(settled).count() >= 10, "{}", file.file_name());
        let granted = |vector: &&&Vector| vector.decision.granted().is_some();
        assert!(decisions.iter().filter(granted).count() >= 4, "{}", file.file_name());
        assert!(decisions.iter().filter(|vector| vector.change.is_some()).count() >= 10);
        let goes_back = file
            .groups
            .iter()
            .any(|group| group.decisions.windows(2).any(|pair| pair[1].now_us < pair[0].now_us));
        assert!(goes_back, "{} has no clock that steps back", file.file_name());
        println!("{}: {} decisions", file.file_name(), decisions.len());
    }
    assert!(all >= 2_000, "{all} decisions in all");
}

#[test]
fn the_worked_race_lets_exactly_one_of_two_pass() {
    let files = golden_vectors();
    let races: Vec<_> = files
        .iter()
        .flat_map(|file| &file.groups)
        .filter(|group| group.name.starts_with("the worked race"))
        .collect();
    assert_eq!(races.len(), 1);
    for race in races {
        let [.., first, second] = race.decisions.as_slice() else { panic!("too short") };
        assert_eq!((first.now_us, first.cost), (second.now_us, second.cost));
        assert_eq!(first.decision.verdict, Verdict::Allowed, "{}", race.name);
        assert_eq!(second.decision.verdict, Verdict::Denied, "{}", race.name);
    }
}

#[test]
fn a_file_of_another_format_is_refused() {
    let text = committed()[0];
    for (from, to) in [
        ("\"format\":1", "\"format\":2"),
        ("\"gcra\"", "\"unheard_of\""),
        ("\"op\":\"check\"", "\"op\":\"guess\""),
        ("\"verdict\":\"allowed\"", "\"verdict\":\"perhaps\""),
        ("\"cost\":1", "\"cost\":0"),
        ("\"remaining\":", "\"left\":"),
    ] {
        assert!(VectorFile::from_json(&text.replace(from, to)).is_err(), "{from} to {to}");
    }
}

//! The fuzz targets, over their seeds and over mutated seeds. Long runs, guided by coverage: `cargo
//! run --release -p xtask -- soak fuzz`.

use std::collections::BTreeSet;
use std::path::Path;

use tollgate_api_tests::garbage::mutated;
use tollgate_server::fuzzing::TARGETS;
use tollgate_testkit::rng::Rng;

const SEED: u64 = 5_112_026;
const TURNS: usize = 20_000;

/// The first inputs of a target: one of each kind, and those that once found a defect.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn no_target_panics_on_its_seeds_or_on_mutated_ones() {
    println!("seed {SEED}");
    for (name, target) in TARGETS {
        let (seeds, mut rng) = (seeds(name), Rng::new(SEED));
        assert!(seeds.len() > 2, "{name}");
        for seed in &seeds {
            target(seed);
        }
        for turn in 0..TURNS {
            let bytes = mutated(&mut rng, &seeds[turn % seeds.len()]);
            let result = std::panic::catch_unwind(|| target(&bytes));
            assert!(result.is_ok(), "{name}: {:?}", bytes.escape_ascii().to_string());
        }
    }
}

#[test]
fn every_target_can_be_run_by_the_fuzzer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let names = |text: &str| -> BTreeSet<String> {
        text.lines()
            .filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix(".rs\""))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(names(&manifest), TARGETS.map(|(name, _)| name.to_owned()).into());
    for (name, _) in TARGETS {
        let program = std::fs::read_to_string(folder.join(format!("{name}.rs"))).unwrap();
        assert!(program.contains(&format!("fuzzing::{name}(bytes)")), "{program}");
    }
}

//! Fuzzing guided by coverage, with libFuzzer on the stable compiler: the pass that counts edges is
//! LLVM's own, so a flag is enough and no other toolchain or cargo command is needed.
//!
//! Memory is bounded by libFuzzer itself: a run that needs more fails. What made a run fail lies
//! among its artifacts and belongs, once mended, among the seeds, which the tests run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::run::{Done, command, output, root, run};

/// The folders with targets, and the targets of each.
const CRATES: [(&str, &[&str]); 2] = [
    ("crates/tollgate-server/fuzz", &["grpc", "http", "policies", "resp"]),
    ("crates/tollgate-tower/fuzz", &["chain"]),
];

/// Counts edges and traces comparisons, with the flags that cargo-fuzz has when no sanitizer is asked
/// for.
const COVERAGE: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-simplifycfg-branch-fold-threshold=0",
    "--cfg fuzzing",
    "-Ccodegen-units=1",
];

/// What a target may need, and how long an input may take.
const BOUNDS: [&str; 3] = ["-rss_limit_mb=512", "-timeout=60", "-max_len=4096"];

/// What libFuzzer counts, and what it is called here.
const FIGURES: [(&str, &str); 2] =
    [("stat::number_of_executed_units:", "executions"), ("stat::peak_rss_mb:", "MiB at most")];

/// Runs every target, or one, for so long each.
pub(super) fn soak(time: Duration, only: Option<&str>) -> Done {
    let wanted = |target: &str| only.is_none_or(|only| only == target);
    if !CRATES.iter().any(|(_, targets)| targets.iter().any(|target| wanted(target))) {
        let all: Vec<&str> = CRATES.iter().flat_map(|(_, targets)| *targets).copied().collect();
        return Err(format!("no such target; accepted: {}", all.join(", ")));
    }
    let rustc = output(command("rustc", &["-vV"]))?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc does not say what it runs on")?;
    for (folder, targets) in CRATES {
        for target in targets.iter().filter(|target| wanted(target)) {
            let program = build(folder, target, host)?;
            fuzz(&program, folder, target, time)?;
        }
    }
    Ok(())
}

/// Beside everything else that is built.
fn built() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    root().join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from)).join("fuzz")
}

/// For a named target, so that neither build scripts nor macros count their edges.
fn build(folder: &str, target: &str, host: &str) -> Result<PathBuf, String> {
    let manifest = format!("{folder}/Cargo.toml");
    // Not locked: the workspace may have new dependencies, which this one has to follow.
    let mut cargo = crate::run::cargo(&["build", "--release", "--target", host]);
    cargo.args(["--manifest-path", &manifest, "--bin", target]);
    cargo.env("CARGO_TARGET_DIR", built()).env("RUSTFLAGS", COVERAGE.join(" "));
    run(cargo)?;
    Ok(built().join(host).join("release").join(target))
}

fn fuzz(program: &Path, folder: &str, target: &str, time: Duration) -> Done {
    let place = built().join("runs").join(target);
    let (corpus, artifacts) = (place.join("corpus"), place.join("artifacts"));
    for made in [&corpus, &artifacts] {
        std::fs::create_dir_all(made).map_err(|error| format!("{}: {error}", made.display()))?;
    }
    let log = place.join("log");
    let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let mut fuzzer = command(&program.to_string_lossy(), &BOUNDS);
    fuzzer.arg(format!("-max_total_time={}", time.as_secs()));
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display())).arg("-print_final_stats=1");
    fuzzer.arg(&corpus);
    let seeds = root().join(folder).join("seeds").join(target);
    if seeds.is_dir() {
        fuzzer.arg(seeds);
    }
    fuzzer.stderr(file);
    println!("{target}: {} s; its log is {}", time.as_secs(), log.display());
    let done = run(fuzzer);
    let said = std::fs::read(&log).map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&said);
    done.map_err(|error| format!("{target}: {error}\n{}", tail(&said)))?;
    println!("{target}: no panic, nothing too slow, {}", figures(&said));
    Ok(())
}

/// The end of what libFuzzer said.
fn tail(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
}

/// Executions, memory and coverage.
fn figures(said: &str) -> String {
    let figure = |(name, called): (&str, &str)| {
        let value = said.lines().find_map(|line| line.strip_prefix(name));
        format!("{} {called}", value.map_or("?", str::trim))
    };
    let mut figures: Vec<String> = FIGURES.into_iter().map(figure).collect();
    let done = said.lines().rfind(|line| line.contains("DONE"));
    let edges = done.and_then(|line| line.split("cov: ").nth(1)?.split(' ').next());
    figures.push(format!("{} edges", edges.unwrap_or("?")));
    figures.join(", ")
}

//! Fuzzing guided by coverage, with libFuzzer on the stable compiler: the pass that counts edges is
//! LLVM's own, so a flag is enough and no other toolchain or cargo command is needed.
//!
//! libFuzzer bounds the memory: a run that needs more fails. The input of a failed run is among
//! its artifacts. Once the bug is fixed, it belongs to the seeds, which the tests run.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::run::{TaskResult, command, output, root, run};

/// The folders with targets, and the targets of each.
const CRATES: [(&str, &[&str]); 2] = [
    ("crates/tollgate-server/fuzz", &["grpc", "http", "policies", "resp"]),
    ("crates/tollgate-tower/fuzz", &["chain"]),
];

/// Counts edges and traces comparisons, with the flags of cargo-fuzz without a sanitizer.
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

/// The memory of a target, the seconds and the bytes of an input.
const BOUNDS: [&str; 3] = ["-rss_limit_mb=512", "-timeout=60", "-max_len=4096"];

/// A figure of libFuzzer, and its name here.
const FIGURES: [(&str, &str); 2] =
    [("stat::number_of_executed_units:", "executions"), ("stat::peak_rss_mb:", "MiB at most")];

/// How libFuzzer begins a line once it has run the seeds, and its last one.
const PHASES: [(&str, &str); 2] = [("INITED", "after the seeds"), ("DONE", "at the end")];

/// Runs every target, or one, each for `time`.
pub(super) fn soak(time: Duration, only: Option<&str>) -> TaskResult {
    let wanted = |target: &str| only.is_none_or(|only| only == target);
    if !CRATES.iter().any(|(_, targets)| targets.iter().any(|target| wanted(target))) {
        let all: Vec<&str> = CRATES.iter().flat_map(|(_, targets)| *targets).copied().collect();
        return Err(format!("no such target; accepted: {}", all.join(", ")));
    }
    let rustc = output(command("rustc", &["-vV"]))?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("rustc prints no host")?;
    // All programs first: what changes in the sources later does not matter.
    let mut programs = Vec::new();
    for (folder, targets) in CRATES {
        for target in targets.iter().filter(|target| wanted(target)) {
            programs.push((build(folder, target, host)?, folder, target));
        }
    }
    for (program, folder, target) in programs {
        fuzz(&program, folder, target, time)?;
    }
    Ok(())
}

/// The folder for builds and runs.
fn builds() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    root().join(target.map_or_else(|| PathBuf::from("target"), PathBuf::from)).join("fuzz")
}

/// For a named target, so that neither build scripts nor macros count their edges.
fn build(folder: &str, target: &str, host: &str) -> Result<PathBuf, String> {
    let manifest = format!("{folder}/Cargo.toml");
    // Not locked: the workspace may have new dependencies, which this one has to follow.
    let mut cargo = crate::run::cargo(&["build", "--release", "--target", host]);
    cargo.args(["--manifest-path", &manifest, "--bin", target]);
    cargo.env("CARGO_TARGET_DIR", builds()).env("RUSTFLAGS", COVERAGE.join(" "));
    run(cargo)?;
    Ok(builds().join(host).join("release").join(target))
}

fn fuzz(program: &Path, folder: &str, target: &str, time: Duration) -> TaskResult {
    let run_folder = builds().join("runs").join(target);
    let (corpus, artifacts) = (run_folder.join("corpus"), run_folder.join("artifacts"));
    for path in [&corpus, &artifacts] {
        std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let log = run_folder.join("log");
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
    let log = std::fs::read(&log).map_err(|error| error.to_string())?;
    let log = String::from_utf8_lossy(&log);
    done.map_err(|error| format!("{target}: {error}\n{}", tail(&log)))?;
    println!("{target}: no panic, no timeout, {}", figures(&log));
    Ok(())
}

/// The end of the log.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
}

/// Executions, memory and coverage.
fn figures(log: &str) -> String {
    let figure = |(name, called): (&str, &str)| {
        let value = log.lines().find_map(|line| line.strip_prefix(name));
        format!("{} {called}", value.map_or("?", str::trim))
    };
    let word = |phase: &str, name: &str| {
        let line = log.lines().rfind(|line| line.contains(phase))?;
        line.split(name).nth(1)?.split(' ').next()
    };
    let memory = |(phase, called): (&str, &str)| {
        format!("{} {called}", word(phase, " rss: ").unwrap_or("?"))
    };
    let mut figures: Vec<String> = FIGURES.into_iter().map(figure).collect();
    figures.extend(PHASES.into_iter().map(memory));
    figures.push(format!("{} edges", word("DONE", "cov: ").unwrap_or("?")));
    figures.join(", ")
}

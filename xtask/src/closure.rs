//! The dependencies of the core, pinned: no runtime, and on wasm32 no clock of an operating system.
//! A new dependency must be named here.

use std::collections::BTreeSet;

use crate::run::{cargo, output};

/// On every target: no dependency but itself.
const EVERYWHERE: [&str; 1] = ["tollgate-core"];
/// The time stamp counter, with its dependencies.
const WITH_A_CLOCK: [&str; 5] = ["bitflags", "libc", "portable-atomic", "quanta", "raw-cpuid"];

/// The names of the normal dependencies of the core, itself included.
fn closure(target: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "-p", "tollgate-core", "-e", "normal", "--prefix", "none", "--locked"];
    let listed = output(cargo(&[&tree, target].concat())).unwrap();
    listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn the_core_on_wasm32_has_no_runtime_and_no_clock() {
    let names = closure(&["--target", "wasm32-unknown-unknown"]);
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), EVERYWHERE);
}

#[test]
fn the_core_has_no_runtime_and_one_clock() {
    let names = closure(&[]);
    let allowed = |name: &str| EVERYWHERE.contains(&name) || WITH_A_CLOCK.contains(&name);
    let new: Vec<&String> = names.iter().filter(|name| !allowed(name)).collect();
    assert!(new.is_empty(), "the core has new dependencies: {new:?}");
    assert!(names.contains("quanta"), "the list was not read: {names:?}");
}

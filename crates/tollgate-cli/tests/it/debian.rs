//! The Debian package, as `cargo xtask deb` makes it of the binary under test: installed, started,
//! asked, upgraded and removed, in a copy of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_test_servers::{Folder, in_machine_copy, program};

use crate::TOLLGATE;

const SCRIPT: &str = include_str!("../deploy/debian.sh");

#[test]
fn the_debian_package_installs_runs_upgrades_and_leaves_nothing() {
    let folder = Folder::new("packages").unwrap();
    let old = packaged(&folder, "0.0.1", b"");
    // Other bytes, the same program.
    let new = packaged(&folder, "0.0.2", b"newer");
    for (name, package) in
        [("curl", "curl"), ("adduser", "adduser"), ("ps", "procps"), ("setpriv", "util-linux")]
    {
        program(name, package).unwrap();
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let arguments = ["-c", SCRIPT, "sh", &text(&old), &text(&new), &text(folder.path())];
    let output = in_machine_copy("/bin/sh", &arguments, folder.path()).unwrap().output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    assert!(printed.ends_with("removed and purged\n"), "{errors}");
}

/// A package of the binary without its debug information, which ends in `more`.
fn packaged(folder: &Folder, version: &str, more: &[u8]) -> PathBuf {
    let binary = folder.path().join("binary");
    let strip = program("strip", "binutils").unwrap();
    let stripped = Command::new(strip).arg("-o").arg(&binary).arg(TOLLGATE).status().unwrap();
    assert!(stripped.success());
    let mut bytes = fs::read(&binary).unwrap();
    bytes.extend(more);
    fs::write(&binary, bytes).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut make = Command::new(cargo);
    make.args(["run", "--quiet", "--locked", "-p", "xtask", "--", "deb"]).arg(&binary);
    make.arg(version).arg(folder.path());
    let output = make.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(Path::new(&path).is_file(), "{path}");
    path.into()
}

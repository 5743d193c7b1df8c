//! Writes every generated file: golden vectors, tables of the documentation, the schema. Tests fail
//! while a committed file differs.

use tollgate_testkit::vectors::{committed_source, generate};

use crate::run::{TaskResult, cargo, root, run};

const KIT: &str = "crates/tollgate-testkit";

pub(crate) fn write() -> TaskResult {
    for file in generate() {
        put(&format!("{KIT}/vectors/{}", file.file_name()), &file.to_json())?;
    }
    put(&format!("{KIT}/src/vectors/committed.rs"), &committed_source())?;
    // The tests that compare the documentation with the code write it instead.
    let tests = ["test", "-p", "tollgate-server", "--all-features", "--test", "it", "generated::"];
    let mut tests = cargo(&tests);
    tests.env("UPDATE_GENERATED", "1");
    run(tests)
}

fn put(path: &str, text: &str) -> TaskResult {
    let wrong = |error| format!("{path} cannot be written: {error}");
    std::fs::write(root().join(path), text).map_err(wrong)?;
    println!("{path}");
    Ok(())
}

//! Writes every generated file: golden vectors, tables of the documentation, the schema. Tests fail
//! while a committed file differs.

use tollgate_testkit::vectors::{committed_source, files_table, generate};

use crate::run::{TaskResult, cargo, root, run};

const KIT: &str = "crates/tollgate-testkit";

pub(crate) fn write() -> TaskResult {
    for file in generate() {
        put(&format!("{KIT}/vectors/{}", file.file_name()), &file.to_json())?;
    }
    put(&format!("{KIT}/src/vectors/committed.rs"), &committed_source())?;
    put_files_table(&format!("{KIT}/vectors/README.md"))?;
    // The tests that compare the documentation with the code write it instead.
    let tests = ["test", "-p", "tollgate-server", "--all-features", "--test", "it", "generated::"];
    let mut tests = cargo(&tests);
    tests.env("UPDATE_GENERATED", "1");
    run(tests)
}

/// Writes the part of a page between its two marks.
fn put_files_table(path: &str) -> TaskResult {
    const BEGIN: &str = "<!-- files: generated -->\n";
    const END: &str = "<!-- end -->";
    let text = std::fs::read_to_string(root().join(path));
    let text = text.map_err(|error| format!("{path} cannot be read: {error}"))?;
    let parts = text.split_once(BEGIN).zip(text.split_once(END));
    let Some(((before, _), (_, after))) = parts else {
        return Err(format!("{path} has no `{}` and `{END}`", BEGIN.trim_end()));
    };
    put(path, &format!("{before}{BEGIN}{}{END}{after}", files_table()))
}

fn put(path: &str, text: &str) -> TaskResult {
    let wrong = |error| format!("{path} cannot be written: {error}");
    std::fs::write(root().join(path), text).map_err(wrong)?;
    println!("{path}");
    Ok(())
}

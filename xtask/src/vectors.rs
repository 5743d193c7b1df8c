//! Writes the golden vectors. A test fails if the committed files differ.

use tollgate_testkit::vectors::generate;

use crate::run::{TaskResult, root};

const FOLDER: &str = "crates/tollgate-testkit/vectors";

pub(crate) fn write() -> TaskResult {
    for file in generate() {
        let path = root().join(FOLDER).join(file.file_name());
        std::fs::write(&path, file.to_json())
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        println!("{FOLDER}/{}", file.file_name());
    }
    Ok(())
}

//! Writes the golden vectors again. A test fails while the committed files differ from this.

use tollgate_testkit::vectors::generate;

use crate::run::{Done, root};

const FOLDER: &str = "crates/tollgate-testkit/vectors";

pub(crate) fn write() -> Done {
    for file in generate() {
        let path = root().join(FOLDER).join(file.file_name());
        std::fs::write(&path, file.to_json())
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        println!("{FOLDER}/{}", file.file_name());
    }
    Ok(())
}

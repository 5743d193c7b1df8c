//! Tables of the documentation that are generated from code, so that they cannot drift.

use std::fs;

use tollgate_server::config::settings_table;

/// The end of a generated part.
const END: &str = "<!-- end -->";

/// Compares the part of a page after `<!-- NAME: generated -->` with the generated text, or writes
/// it if `UPDATE_GENERATED` is set.
pub(crate) fn check(page: &str, name: &str, generated: &str) {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap();
    let begin = format!("<!-- {name}: generated -->\n");
    let (before, rest) = text.split_once(&begin).expect("the begin of the table");
    let (written, after) = rest.split_once(END).expect("the end of the table");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(path, format!("{before}{begin}{generated}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(written, generated, "run the tests of this crate with UPDATE_GENERATED=1");
}

#[test]
fn the_table_of_settings_is_current() {
    check("configuration.md", "settings", &settings_table());
}

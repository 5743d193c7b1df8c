//! Parts of the documentation that are generated from code, so that they cannot drift.

use std::fs;
use std::sync::{Mutex, PoisonError};

use tollgate::algorithm::Kind;
use tollgate_server::config::{reloads_table, schema, settings_table};
use tollgate_server::store::parameters_tables;
use tollgate_server::telemetry::metrics_table;
use tollgate_service::config::algorithms_table;

/// The end of a generated part.
const END: &str = "<!-- end -->";
/// Several tests may update one file.
static FILES: Mutex<()> = Mutex::new(());

/// Compares a file below `docs` with what `generate` makes of its text, or writes that if
/// `UPDATE_GENERATED` is set, as `cargo xtask generate` does.
fn compare(file: &str, generate: impl FnOnce(&str) -> String) {
    let _held = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let path = format!("{}/../../docs/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap();
    let generated = generate(&text);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(path, generated).unwrap();
        return;
    }
    assert!(text == generated, "docs/{file} is stale: run `cargo xtask generate`");
}

/// Compares the part of a page after `<!-- NAME: generated -->` with the generated text.
fn compare_part(page: &str, name: &str, generated: &str) {
    compare(page, |text| {
        let begin = format!("<!-- {name}: generated -->\n");
        let (before, rest) = text.split_once(&begin).expect("the begin of the part");
        let (_, after) = rest.split_once(END).expect("the end of the part");
        format!("{before}{begin}{generated}{END}{after}")
    });
}

#[test]
fn the_table_of_settings_is_current() {
    compare_part("configuration.md", "settings", &settings_table());
}

#[test]
fn the_table_of_reloads_is_current() {
    compare_part("configuration.md", "reloads", &reloads_table());
}

#[test]
fn the_table_of_algorithms_is_current() {
    compare_part("configuration.md", "algorithms", &algorithms_table());
}

#[test]
fn the_table_of_tags_is_current() {
    let row = |kind: Kind| format!("| `{}` | {} |\n", kind.name(), kind.tag());
    let rows = Kind::ALL.map(row).concat();
    compare_part("algorithms.md", "tags", &format!("| algorithm | tag |\n|---|---|\n{rows}"));
}

#[test]
fn the_table_of_metrics_is_current() {
    compare_part("configuration.md", "metrics", &metrics_table());
}

#[tokio::test]
async fn the_table_of_stores_is_current() {
    compare_part("stores.md", "which store", &crate::stores::table().await);
}

#[test]
fn the_tables_of_parameters_of_stores_are_current() {
    compare_part("configuration.md", "parameters", &parameters_tables());
}

#[test]
fn the_schema_is_current() {
    compare("tollgate.schema.json", |_| {
        format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap())
    });
}

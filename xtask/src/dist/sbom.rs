//! A bill of materials in the format CycloneDX 1.5: every crate that is linked into the binary,
//! with its licence, its checksum and what it depends on.
//!
//! It is written from `cargo tree`, which knows the features of this one build; `cargo metadata`
//! unites those of the whole workspace. What only builds the binary is not in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use crate::run::{cargo, output, root};

/// A crate in the binary.
#[derive(Clone, Debug, Default)]
struct Component {
    name: String,
    version: String,
    licence: String,
    dependencies: BTreeSet<String>,
}

/// The bill of materials of a binary.
///
/// # Errors
/// When cargo fails, or prints what is not expected.
pub(super) fn sbom(package: &str, version: &str, triple: &str) -> Result<String, String> {
    let tree = output(cargo(&[
        "tree",
        "--locked",
        "-p",
        package,
        "--target",
        triple,
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "depth",
        "--format",
        "|{p}|{l}",
    ]))?;
    let lock = root().join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(super::at(&lock))?;
    let components = components(&tree)?;
    let document = document(&components, &checksums(&lock), (package, version));
    serde_json::to_string_pretty(&document)
        .map(|text| text + "\n")
        .map_err(|error| error.to_string())
}

/// The crates of a tree, by their package URLs.
fn components(tree: &str) -> Result<BTreeMap<String, Component>, String> {
    let mut found = BTreeMap::<String, Component>::new();
    let mut path: Vec<String> = Vec::new();
    for line in tree.lines() {
        let wrong = || format!("cargo tree printed {line:?}");
        let mut parts = line.splitn(3, '|');
        let depth: usize = parts.next().and_then(|depth| depth.parse().ok()).ok_or_else(wrong)?;
        let mut words = parts.next().ok_or_else(wrong)?.split(' ');
        let name = words.next().ok_or_else(wrong)?.to_owned();
        let version =
            words.next().and_then(|it| it.strip_prefix('v')).ok_or_else(wrong)?.to_owned();
        let licence = parts.next().unwrap_or_default();
        // A crate that was listed before ends in a mark.
        let licence = licence.strip_suffix(" (*)").unwrap_or(licence).trim().replace('/', " OR ");
        let url = url_of(&name, &version);
        path.truncate(depth);
        if let Some(parent) = path.last().and_then(|parent| found.get_mut(parent)) {
            parent.dependencies.insert(url.clone());
        }
        path.push(url.clone());
        let new = Component { name, version, licence, dependencies: BTreeSet::new() };
        found.entry(url).or_insert(new);
    }
    Ok(found)
}

/// The checksums of the lock file, by package URLs.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let value = |line: &str, field: &str| {
        let quoted = line.strip_prefix(field)?.strip_prefix(" = \"")?;
        Some(quoted.strip_suffix('"')?.to_owned())
    };
    let packages = lock.split("[[package]]");
    let checksum = |package: &str| {
        let field = |field| package.lines().find_map(|line| value(line, field));
        Some((url_of(&field("name")?, &field("version")?), field("checksum")?))
    };
    packages.filter_map(checksum).collect()
}

fn document(
    components: &BTreeMap<String, Component>,
    checksums: &BTreeMap<String, String>,
    (package, version): (&str, &str),
) -> Value {
    let root = url_of(package, version);
    let libraries = components.iter().filter(|(url, _)| **url != root);
    let libraries = libraries.map(|(url, component)| {
        let mut library = json!({
            "type": "library",
            "bom-ref": url,
            "purl": url,
            "name": component.name,
            "version": component.version,
        });
        if let Some(fields) = library.as_object_mut() {
            if !component.licence.is_empty() {
                fields.insert("licenses".into(), json!([{"expression": component.licence}]));
            }
            if let Some(sum) = checksums.get(url) {
                fields.insert("hashes".into(), json!([{"alg": "SHA-256", "content": sum}]));
            }
        }
        library
    });
    let dependencies = components
        .iter()
        .map(|(url, component)| json!({"ref": url, "dependsOn": component.dependencies}));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": root,
            "purl": root,
            "name": "tollgate",
            "version": version,
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
        }},
        "components": libraries.collect::<Vec<Value>>(),
        "dependencies": dependencies.collect::<Vec<Value>>(),
    })
}

fn url_of(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_becomes_a_graph() {
        let tree = "0|a v1.0.0 (/src/a)|MIT\n1|b v2.0.0|MIT/Apache-2.0\n2|c v3.0.0+4|\n\
                    1|c v3.0.0+4| (*)\n";
        let found = components(tree).unwrap();
        let (b, c) = ("pkg:cargo/b@2.0.0", "pkg:cargo/c@3.0.0%2B4");
        assert_eq!(found.len(), 3);
        assert!(found["pkg:cargo/a@1.0.0"].dependencies.iter().eq([b, c]));
        assert!(found[b].dependencies.iter().eq([c]));
        assert_eq!(found[b].licence, "MIT OR Apache-2.0");
        assert!(components("nothing").is_err());
        let lock = "[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"00ff\"\n";
        let document = document(&found, &checksums(lock), ("a", "1.0.0"));
        assert_eq!(document["components"][0]["hashes"][0]["content"], "00ff");
        assert_eq!(document["components"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn the_binary_has_no_crate_of_the_tests() {
        let text = sbom(super::super::PACKAGE, "0.1.0", "x86_64-unknown-linux-gnu").unwrap();
        assert!(text.contains("pkg:cargo/tollgate-core@") && text.contains("pkg:cargo/ring@"));
        assert!(!text.contains("tollgate-test-servers") && !text.contains("/syn@"));
        assert!(text.contains("\"SHA-256\""));
    }
}

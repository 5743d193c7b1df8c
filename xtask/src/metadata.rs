//! The packages of the workspace, as `cargo metadata` lists them.

use serde_json::Value;

use crate::run::{cargo, output};

/// What a registry shows of a package.
const FIELDS: [&str; 6] =
    ["description", "documentation", "license", "readme", "repository", "rust_version"];

/// A member of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its public address; empty without one.
    pub(crate) repository: String,
    /// The fields of a registry that its manifest lacks.
    pub(crate) missing: Vec<&'static str>,
    /// Whether it may be published.
    pub(crate) is_published: bool,
    pub(crate) is_library: bool,
    /// Whether it is a Worker: a library for a host that loads WebAssembly.
    pub(crate) is_worker: bool,
    /// Its features, without `default`.
    pub(crate) features: Vec<String>,
    /// The members that it is built with; those of its tests are not listed.
    pub(crate) dependencies: Vec<String>,
}

/// All members.
///
/// # Errors
/// When cargo fails, or prints what is not expected.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let listed = ["metadata", "--no-deps", "--format-version", "1", "--locked"];
    let listed = output(cargo(&listed))?;
    let metadata: Value = serde_json::from_str(&listed).map_err(|error| error.to_string())?;
    Ok(items(&metadata, "packages").map(package).collect())
}

fn package(package: &Value) -> Package {
    let is_member = |dependency: &&Value| dependency.get("path").is_some_and(Value::is_string);
    let is_built = |dependency: &&Value| text(dependency, "kind") != "dev";
    let dependencies = items(package, "dependencies").filter(is_member).filter(is_built);
    let features = package.get("features").and_then(Value::as_object);
    let features = features.into_iter().flat_map(|features| features.keys());
    let has_kind = |kind: &str| {
        items(package, "targets").any(|target| items(target, "kind").any(|found| found == kind))
    };
    Package {
        name: text(package, "name"),
        version: text(package, "version"),
        repository: text(package, "repository"),
        missing: FIELDS.into_iter().filter(|field| text(package, field).is_empty()).collect(),
        is_published: package.get("publish").is_none_or(Value::is_null),
        is_library: has_kind("lib"),
        is_worker: has_kind("cdylib"),
        features: features.filter(|name| *name != "default").cloned().collect(),
        dependencies: dependencies.map(|dependency| text(dependency, "name")).collect(),
    }
}

fn items<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// A field of text; empty if it is missing or null.
fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_listed() {
        let packages = super::packages().unwrap();
        let redis = packages.iter().find(|package| package.name == "tollgate-redis").unwrap();
        assert!(redis.is_published && redis.is_library);
        assert!(redis.features.iter().any(|feature| feature == "upstash"));
        assert!(redis.dependencies.iter().any(|name| name == "tollgate-core"));
        assert!(!redis.dependencies.iter().any(|name| name == "tollgate-testkit"));
        let xtask = packages.iter().find(|package| package.name == "xtask").unwrap();
        assert!(!xtask.is_published && !xtask.is_library);
        let worker = |package: &&super::Package| package.name == "tollgate-counter-worker";
        let worker = packages.iter().find(worker).unwrap();
        assert!(worker.is_worker && !worker.is_library);
    }
}

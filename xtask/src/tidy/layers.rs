//! Which crate may depend on which: the arrows of ARCHITECTURE.md.

use crate::metadata::Package;

/// The facade, which may be built with every store.
const FACADE: &str = "tollgate";
/// What a published crate that [`LAYERS`] does not name may be built with: it is a store.
const OF_STORES: &[&str] = &["tollgate-core", "tollgate-net"];

/// A crate, and the members that it may be built with. Dependencies of tests are free.
const LAYERS: [(&str, &[&str]); 13] = [
    ("tollgate-core", &[]),
    ("tollgate-http", &["tollgate-core"]),
    ("tollgate-service", &["tollgate-core", "tollgate-http"]),
    ("tollgate-net", &["tollgate-core"]),
    ("tollgate-redis", OF_STORES),
    (FACADE, &["tollgate-core", "tollgate-redis"]),
    ("tollgate-tower", &["tollgate", "tollgate-core", "tollgate-http"]),
    ("tollgate-proto", &[]),
    (
        "tollgate-server",
        &["tollgate", "tollgate-core", "tollgate-http", "tollgate-proto", "tollgate-service"],
    ),
    ("tollgate-worker", &["tollgate-core", "tollgate-http", "tollgate-redis", "tollgate-service"]),
    (
        "tollgate-cli",
        &[
            "tollgate",
            "tollgate-core",
            "tollgate-net",
            "tollgate-proto",
            "tollgate-server",
            "tollgate-service",
        ],
    ),
    ("tollgate-testkit", &["tollgate-core"]),
    ("tollgate-test-servers", &[]),
];

/// Every published crate and the test servers depend on nothing that the table does not allow.
pub(crate) fn dependencies_follow_the_layers(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    let layer = |name: &str| LAYERS.iter().find(|(layer, _)| *layer == name);
    for Package { name, dependencies, is_published, .. } in packages {
        let allowed = match layer(name) {
            Some((_, allowed)) => allowed,
            None if *is_published => OF_STORES,
            // Examples and tasks may use everything.
            None => continue,
        };
        let may = |dependency: &str| {
            allowed.contains(&dependency) || (name == FACADE && layer(dependency).is_none())
        };
        let up = dependencies.iter().filter(|dependency| !may(dependency));
        wrong.extend(up.map(|dependency| format!("{name}: must not depend on {dependency}")));
    }
    wrong
}

/// The table names no crate that does not exist.
pub(crate) fn layers_name_crates(packages: &[Package]) -> Vec<String> {
    let exists = |name: &str| packages.iter().any(|package| package.name == name);
    let named = LAYERS.iter().flat_map(|(name, allowed)| [name].into_iter().chain(*allowed));
    let unknown = named.filter(|name| !exists(name));
    unknown.map(|name| format!("xtask/src/tidy/layers.rs: there is no crate {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, is_published: bool, dependencies: &[&str]) -> usize {
        let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        let package =
            Package { name: name.to_owned(), is_published, dependencies, ..Package::default() };
        dependencies_follow_the_layers(&[package]).len()
    }

    #[test]
    fn a_layer_without_its_crate_is_found() {
        let package = |name: &str| Package { name: name.to_owned(), ..Package::default() };
        let mut packages: Vec<Package> = LAYERS.iter().map(|(name, _)| package(name)).collect();
        assert_eq!(layers_name_crates(&packages), [""; 0]);
        packages.retain(|package| package.name != "tollgate-proto");
        let wrong = layers_name_crates(&packages);
        // As a layer, and as what the server and the command line may be built with.
        assert_eq!(wrong.len(), 3, "{wrong:?}");
        assert!(wrong.iter().all(|message| message.ends_with("no crate tollgate-proto")));
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        assert_eq!(complaints("tollgate-core", true, &["tollgate-net"]), 1);
        assert_eq!(complaints("tollgate-redis", true, &["tollgate-core", "tollgate-server"]), 1);
        assert_eq!(complaints("tollgate-redis", true, &["tollgate-core", "tollgate-net"]), 0);
        assert_eq!(complaints("tollgate-tower", true, &["tollgate-testkit"]), 1);
    }

    #[test]
    fn a_published_crate_without_a_layer_is_a_store() {
        assert_eq!(complaints("tollgate-new", true, &["tollgate-core", "tollgate-net"]), 0);
        assert_eq!(complaints("tollgate-new", true, &["tollgate-core", "tollgate-service"]), 1);
        assert_eq!(complaints("tollgate-new", true, &["tollgate-sqlite"]), 1);
        assert_eq!(complaints("tollgate", true, &["tollgate-core", "tollgate-new"]), 0);
        assert_eq!(complaints("tollgate", true, &["tollgate-service"]), 1);
        assert_eq!(complaints("xtask", false, &["tollgate-testkit"]), 0);
    }
}

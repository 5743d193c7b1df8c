//! Which crate may depend on which: the arrows of ARCHITECTURE.md.

use crate::metadata::Package;

/// A crate, and the members that it may be built with. Dependencies of tests are free.
const LAYERS: [(&str, &[&str]); 18] = [
    ("tollgate-core", &[]),
    ("tollgate-http", &["tollgate-core"]),
    ("tollgate-service", &["tollgate-core", "tollgate-http"]),
    ("tollgate-net", &["tollgate-core"]),
    ("tollgate-redis-client", &["tollgate-core", "tollgate-net"]),
    ("tollgate-redis", &["tollgate-core", "tollgate-net", "tollgate-redis-client"]),
    ("tollgate-postgres", &["tollgate-core", "tollgate-net"]),
    ("tollgate-sqlite", &["tollgate-core"]),
    ("tollgate-dynamodb", &["tollgate-core", "tollgate-net"]),
    ("tollgate-denokv", &["tollgate-core", "tollgate-net"]),
    (
        "tollgate",
        &[
            "tollgate-core",
            "tollgate-denokv",
            "tollgate-dynamodb",
            "tollgate-postgres",
            "tollgate-redis",
            "tollgate-sqlite",
        ],
    ),
    ("tollgate-tower", &["tollgate", "tollgate-core", "tollgate-http"]),
    ("tollgate-proto", &[]),
    (
        "tollgate-server",
        &["tollgate", "tollgate-core", "tollgate-http", "tollgate-proto", "tollgate-service"],
    ),
    ("tollgate-worker", &["tollgate-core", "tollgate-http", "tollgate-service"]),
    (
        "tollgate-cli",
        &["tollgate", "tollgate-core", "tollgate-proto", "tollgate-server", "tollgate-service"],
    ),
    ("tollgate-testkit", &["tollgate-core"]),
    ("tollgate-test-servers", &[]),
];

/// Every published crate and the test servers depend on nothing that the table does not allow.
pub(crate) fn dependencies_follow_the_layers(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let Package { name, dependencies, is_published, .. } = package;
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| layer == name) else {
            // Examples and tasks may use everything.
            if *is_published {
                wrong.push(format!("{name}: has no layer: name it in xtask/src/tidy/layers.rs"));
            }
            continue;
        };
        let up = dependencies.iter().filter(|dependency| !allowed.contains(&dependency.as_str()));
        wrong.extend(up.map(|dependency| format!("{name}: must not depend on {dependency}")));
    }
    wrong
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
    fn an_arrow_that_points_up_is_found() {
        assert_eq!(complaints("tollgate-core", true, &["tollgate-net"]), 1);
        assert_eq!(complaints("tollgate-redis", true, &["tollgate-core", "tollgate-server"]), 1);
        assert_eq!(complaints("tollgate-redis", true, &["tollgate-core", "tollgate-net"]), 0);
        assert_eq!(complaints("tollgate-tower", true, &["tollgate-testkit"]), 1);
    }

    #[test]
    fn a_published_crate_without_a_layer_is_found() {
        assert_eq!(complaints("tollgate-new", true, &[]), 1);
        assert_eq!(complaints("xtask", false, &["tollgate-testkit"]), 0);
    }
}

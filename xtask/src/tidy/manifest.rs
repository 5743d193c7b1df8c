//! Rules about manifests.

use crate::files::File;

/// A member takes every dependency from the workspace, where its version and its reason stand once.
/// A workspace of its own, such as the benchmarks, declares its own.
pub(crate) fn dependencies_are_declared_once(files: &[File]) -> Vec<String> {
    let is_member = |file: &&File| {
        let path = file.path.as_str();
        let is_workspace = file.text.lines().any(|line| line == "[workspace]");
        path.ends_with("/Cargo.toml") && !is_workspace
    };
    files.iter().filter(is_member).flat_map(versions_of_its_own).collect()
}

fn versions_of_its_own(file: &File) -> Vec<String> {
    let mut in_dependencies = false;
    let mut wrong = Vec::new();
    for (number, line) in file.lines() {
        if line.starts_with('[') {
            in_dependencies = line.trim_end().ends_with("dependencies]");
            // One table per dependency would escape this rule.
            if line.contains("dependencies.") {
                wrong.push(format!("{}:{number}: write a dependency on one line", file.path));
            }
        } else if in_dependencies
            && !(line.trim().is_empty() || line.starts_with('#'))
            && !line.contains("workspace = true")
        {
            wrong.push(format!("{}:{number}: declare it in the workspace", file.path));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_in_a_member_is_found() {
        let complaints =
            |path, text: &str| dependencies_are_declared_once(&[File::new(path, text)]).len();
        let inherited = "[dependencies]\na.workspace = true\nb = { workspace = true }\n# c\n";
        assert_eq!(complaints("crates/x/Cargo.toml", inherited), 0);
        let own = "[package]\nname = \"x\"\n[dev-dependencies]\na = \"1\"\n";
        assert_eq!(complaints("crates/x/Cargo.toml", own), 1);
        assert_eq!(complaints("crates/x/Cargo.toml", "[dependencies.a]\nversion = \"1\"\n"), 1);
        assert_eq!(complaints("bench/Cargo.toml", &format!("[workspace]\n{own}")), 0);
    }
}

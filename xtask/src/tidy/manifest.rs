//! Rules about manifests.

use crate::files::File;

/// A member takes every dependency from the workspace, which declares its version and its reason.
pub(crate) fn dependencies_are_declared_once(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| is_member(file)).flat_map(own_versions).collect()
}

/// A member has the lints of the workspace, so that an item without documentation fails everywhere.
pub(crate) fn lints_are_inherited(files: &[File]) -> Vec<String> {
    let inherits = |file: &File| file.text.contains("\n[lints]\nworkspace = true\n");
    let members = files.iter().filter(|file| is_member(file) && !inherits(file));
    members.map(|file| format!("{}: must inherit the lints of the workspace", file.path)).collect()
}

/// The benchmarks and the fuzz targets are workspaces of their own.
fn is_member(file: &File) -> bool {
    let is_workspace = file.lines().any(|(_, line)| line == "[workspace]");
    file.path.ends_with("/Cargo.toml") && !file.path.starts_with("bench/") && !is_workspace
}

fn own_versions(file: &File) -> Vec<String> {
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
        assert_eq!(complaints("crates/x/fuzz/Cargo.toml", &format!("[workspace]\n{own}")), 0);
    }

    #[test]
    fn a_member_without_the_lints_is_found() {
        let complaints =
            |text: &str| lints_are_inherited(&[File::new("crates/x/Cargo.toml", text)]).len();
        assert_eq!(complaints("[package]\nname = \"x\"\n"), 1);
        assert_eq!(complaints("[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(complaints("[workspace]\n"), 0);
    }
}

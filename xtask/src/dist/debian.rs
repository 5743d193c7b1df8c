//! The Debian package: binary, unit, configuration, manual pages and completions.
//!
//! `dpkg-deb` builds it from a folder. The files for dpkg are in `deploy/debian`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tollgate_test_servers::{Folder, program};

use super::documents::Documents;
use super::{copy, create, in_folder, write};
use crate::run::{TaskResult, command, output, root, run};

/// How the content is compressed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Compression {
    /// For a release.
    Small,
    /// For tests.
    Fast,
}

/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];
const BINARY: &str = "usr/bin/tollgate";
const DOCUMENTATION: &str = "usr/share/doc/tollgate";
const CONFIGURATION: &str = "etc/tollgate/tollgate.yaml";

/// Files of the repository, and where they are installed.
const FILES: [(&str, &str); 4] = [
    ("deploy/debian/tollgate.yaml", CONFIGURATION),
    ("deploy/debian/copyright", "usr/share/doc/tollgate/copyright"),
    ("LICENSE-MIT", "usr/share/doc/tollgate/LICENSE-MIT"),
    ("docs/tollgate.schema.json", "usr/share/doc/tollgate/examples/tollgate.schema.json"),
];

/// Makes the package in a folder, and returns its path.
///
/// # Errors
/// When a program of Debian is missing and cannot be installed, or refuses what it gets.
pub(super) fn package(
    binary: &Path,
    documents: &Documents,
    version: &str,
    folder: &Path,
    (compression, epoch): (Compression, u64),
) -> Result<PathBuf, String> {
    let scratch = Folder::new("debian").map_err(|error| error.to_string())?;
    let staged = scratch.path().join("package");
    stage(binary, documents, &staged, epoch)?;
    let architecture = output(command(&debian("dpkg")?, &["--print-architecture"]))?;
    let architecture = architecture.trim();
    let libraries = libraries(&staged, scratch.path())?;
    describe(&staged, version, architecture, &libraries)?;
    create(folder)?;
    let path = folder.join(format!("tollgate_{version}_{architecture}.deb"));
    let mut build = command(&debian("dpkg-deb")?, &["--root-owner-group"]);
    build.arg(match compression {
        Compression::Small => "-Zxz",
        Compression::Fast => "-Znone",
    });
    build.env("SOURCE_DATE_EPOCH", epoch.to_string()).arg("--build").args([&staged, &path]);
    output(build)?;
    Ok(path)
}

/// Lays out what is installed.
fn stage(binary: &Path, documents: &Documents, staged: &Path, epoch: u64) -> TaskResult {
    copy(binary, &staged.join(BINARY))?;
    for (from, to) in FILES {
        copy(&root().join(from), &staged.join(to))?;
    }
    let unit = read("deploy/systemd/tollgate.service")?;
    // By hand it is installed below /usr/local.
    let unit = unit.replace("/usr/local/bin/", "/usr/bin/");
    write(&staged.join("usr/lib/systemd/system/tollgate.service"), &unit)?;
    // The example names the schema as it lies in the repository.
    let example = read("deploy/config/tollgate.yaml")?.replace("../../docs/", "");
    write(&staged.join(DOCUMENTATION).join("examples/tollgate.yaml"), &example)?;
    write(&staged.join(DOCUMENTATION).join("changelog"), &read("CHANGELOG.md")?)?;
    let mut compressed = vec![format!("{DOCUMENTATION}/changelog")];
    for (name, text) in &documents.manual_pages {
        write(&staged.join("usr/share/man/man1").join(name), text)?;
        compressed.push(format!("usr/share/man/man1/{name}"));
    }
    for (completion, text) in &documents.completions {
        let file = completion.file.strip_suffix(".bash").unwrap_or(completion.file);
        write(&staged.join("usr/share").join(completion.folder).join(file), text)?;
    }
    let mut gzip = command("gzip", &["-9n"]);
    gzip.args(compressed);
    run(in_folder(gzip, staged))?;
    // Whatever umask and checkout gave them.
    let mut permissions = command("chmod", &["-R", "u=rwX,go=rX", "."]);
    permissions = in_folder(permissions, staged);
    run(permissions)?;
    let touch = ["-exec", "touch", "--no-dereference", "--date", &format!("@{epoch}"), "{}", "+"];
    run(in_folder(command("find", &[&["."], &touch[..]].concat()), staged))
}

/// What the binary needs of the system; empty for a static one.
fn libraries(staged: &Path, scratch: &Path) -> Result<String, String> {
    write(
        &scratch.join("debian/control"),
        "Source: tollgate\n\nPackage: tollgate\nArchitecture: any\n",
    )?;
    let name = "dpkg-shlibdeps";
    let program = program(name, "dpkg-dev").map_err(|error| error.to_string())?;
    let mut find = command(&program.to_string_lossy(), &["-O", "--ignore-missing-info"]);
    find.arg(staged.join(BINARY));
    let printed = output(in_folder(find, scratch))?;
    let line = printed.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(line.unwrap_or_default().to_owned())
}

/// Writes the files for dpkg.
fn describe(staged: &Path, version: &str, architecture: &str, libraries: &str) -> TaskResult {
    let control = staged.join("DEBIAN");
    let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = output(in_folder(command("sh", &["-c", sums]), staged))?;
    let kibibytes = output(in_folder(command("du", &["-sk", "--apparent-size", "."]), staged))?;
    let kibibytes = kibibytes.split_whitespace().next().unwrap_or("0").to_owned();
    let separator = if libraries.is_empty() { "" } else { ", " };
    let text = read("deploy/debian/control")?
        .replace("${version}", version)
        .replace("${architecture}", architecture)
        .replace("${size}", &kibibytes)
        .replace("${libraries}", &format!("{separator}{libraries}"));
    write(&control.join("control"), &text)?;
    write(&control.join("md5sums"), &sums)?;
    write(&control.join("conffiles"), &format!("/{CONFIGURATION}\n"))?;
    for script in SCRIPTS {
        let path = control.join(script);
        write(&path, &read(&format!("deploy/debian/{script}"))?)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(super::at(&path))?;
    }
    Ok(())
}

/// The text of a file of the repository.
fn read(path: &str) -> Result<String, String> {
    let path = root().join(path);
    fs::read_to_string(&path).map_err(super::at(&path))
}

/// A program of the package manager.
fn debian(name: &str) -> Result<String, String> {
    let path = program(name, "dpkg").map_err(|error| error.to_string())?;
    Ok(path.to_string_lossy().into_owned())
}

//! What is released, by one command: an archive with a static binary, its manual pages and its
//! completions; a Debian package; a bill of materials; checksums.
//!
//! What differs between runs is kept out: paths are replaced in the binary, files are sorted, and
//! all times are that of the commit.

mod build;
mod debian;
mod documents;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};

use crate::metadata::packages;
use crate::run::{TaskResult, command, output, root, run};

use self::documents::Documents;

/// The package of the binary.
const PACKAGE: &str = "tollgate-cli";
/// The folder of the results, in the root.
const FOLDER: &str = "dist";

/// Files of the repository that a release holds, and their names there.
const FILES: [(&str, &str); 6] = [
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("README.md", "README.md"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("deploy/config/tollgate.yaml", "tollgate.yaml"),
    ("deploy/systemd/tollgate.service", "tollgate.service"),
];

/// Builds everything into the folder `dist`.
///
/// # Errors
/// When a program is missing and cannot be installed, or the build fails.
pub(crate) fn dist() -> TaskResult {
    let packages = packages()?;
    let package = packages.iter().find(|package| package.name == PACKAGE);
    let version = &package.ok_or("the workspace has no binary")?.version;
    let triple = build::target_triple()?;
    let binary = build::binary(&triple)?;
    let epoch = epoch();
    let folder = root().join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(at(&folder))?;
    }
    create(&folder)?;
    let documents = Documents::of(&binary)?;
    let name = format!("tollgate-{version}-{triple}");
    archive(&binary, &documents, &folder.join(&name), epoch)?;
    debian::package(&binary, &documents, version, &folder, (debian::Compression::Small, epoch))?;
    write(&folder.join(format!("{name}.cdx.json")), &sbom::sbom(PACKAGE, version, &triple)?)?;
    write_checksums(&folder)?;
    println!("{}", output(command("ls", &["-l", FOLDER]))?.trim_end());
    if triple.ends_with("-gnu") {
        println!(
            "The binary is not static: it needs the C library of this machine or a newer one."
        );
    }
    Ok(())
}

/// Makes a Debian package of any build of the binary, and prints its path.
///
/// # Errors
/// When the binary does not run here, or a program is missing and cannot be installed.
pub(crate) fn debian_package(binary: &str, version: &str, folder: &str) -> TaskResult {
    let (binary, folder) = (Path::new(binary), Path::new(folder));
    let documents = Documents::of(binary)?;
    let how = (debian::Compression::Fast, epoch());
    let path = debian::package(binary, &documents, version, folder, how)?;
    println!("{}", path.display());
    Ok(())
}

/// The time of the commit in seconds, or `SOURCE_DATE_EPOCH`; without both, 1980.
fn epoch() -> u64 {
    const YEAR_1980: u64 = 315_532_800;
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let time = given.or_else(|| output(command("git", &["log", "-1", "--format=%ct"])).ok());
    time.and_then(|time| time.trim().parse().ok()).unwrap_or(YEAR_1980)
}

/// A compressed archive beside this folder, which is made, filled and removed.
fn archive(binary: &Path, documents: &Documents, staged: &Path, epoch: u64) -> TaskResult {
    create(staged)?;
    copy(binary, &staged.join("tollgate"))?;
    for (from, to) in FILES {
        copy(&root().join(from), &staged.join(to))?;
    }
    for (name, text) in &documents.manual_pages {
        write(&staged.join("man").join(name), text)?;
    }
    for (completion, text) in &documents.completions {
        write(&staged.join("completions").join(completion.file), text)?;
    }
    let (Some(folder), Some(name)) = (staged.parent(), staged.file_name()) else {
        return Err(format!("{} is no folder in another one", staged.display()));
    };
    let name = name.to_string_lossy().into_owned();
    let mut tar = command("tar", &["--create", "--file", &format!("{name}.tar")]);
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"]);
    tar.args([&format!("--mtime=@{epoch}"), "--mode=u=rwX,go=rX", &name]);
    run(in_folder(tar, folder))?;
    run(in_folder(command("gzip", &["-9n", &format!("{name}.tar")]), folder))?;
    fs::remove_dir_all(staged).map_err(at(staged))
}

/// `SHA256SUMS` of all files in a folder.
fn write_checksums(folder: &Path) -> TaskResult {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        names.push(entry.map_err(at(folder))?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    let mut sums = command("sha256sum", &["--"]);
    sums.args(names);
    write(&folder.join("SHA256SUMS"), &output(in_folder(sums, folder))?)
}

fn in_folder(mut command: std::process::Command, folder: &Path) -> std::process::Command {
    command.current_dir(folder);
    command
}

fn create(folder: &Path) -> TaskResult {
    fs::create_dir_all(folder).map_err(at(folder))
}

/// Writes a file, and makes its folder.
fn write(path: &Path, text: &str) -> TaskResult {
    path.parent().map_or(Ok(()), create)?;
    fs::write(path, text).map_err(at(path))
}

/// Copies a file with its permissions, and makes the folder.
fn copy(from: &Path, to: &Path) -> TaskResult {
    to.parent().map_or(Ok(()), create)?;
    fs::copy(from, to).map(drop).map_err(at(from))
}

/// The error of a file, with its path.
fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path: PathBuf = path.to_owned();
    move |error| format!("{}: {error}", path.display())
}

//! A real disk that is soon full, for one server: a tmpfs that is mounted in a namespace of its
//! own.
//!
//! Only that server and its children see it, and the kernel removes it with them. No root account
//! is needed, but the machine must permit user namespaces: where it does not, the server fails to
//! start, with what `unshare` says.

use std::path::Path;
use std::process::Command;

use super::error::Result;
use super::install;

/// Mounts the disk as root of the first namespace. The program runs as another user of a second
/// one, because some servers refuse root.
const MOUNT: &str = "mount -t tmpfs -o \"size=$1\" tmpfs \"$2\" && shift 2 && \
                     exec unshare --user --map-user=1000 --map-group=1000 -- \"$@\"";

/// The same command, for which this folder, which has to exist, is an empty disk of `bytes`.
///
/// # Errors
/// When `unshare` is missing and cannot be installed.
pub fn on_small_disk(command: &Command, folder: &Path, bytes: u64) -> Result<Command> {
    let mut outer = Command::new(install::program("unshare", "util-linux")?);
    outer.args(["--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c", MOUNT, "sh"]);
    outer.arg(bytes.to_string()).arg(folder).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    Ok(outer)
}

//! A copy of this machine's files, in which a test may install packages as root.
//!
//! It is an overlay in a namespace of its own: reads come from this machine, writes go to memory.
//! Only the command and its children see it. They end with the command, and the kernel drops what
//! they wrote. As for installing packages, root is needed, or a sudo that asks no password.

use std::path::Path;
use std::process::Command;

use super::error::{Error, Result};
use super::{install, root};

const MOUNT: &str = r#"set -e
shared=$1; shift
# Another folder than the present one hides no file of the copy.
disk=$(mktemp -d); mount -t tmpfs tmpfs "$disk"; cd "$disk"; mkdir upper work copy
mount -t overlay -o lowerdir=/,upperdir="$disk/upper",workdir="$disk/work" overlay copy
mount --rbind /dev copy/dev
mount -t proc proc copy/proc
mkdir -p "copy$shared"; mount --bind "$shared" "copy$shared"
exec chroot copy "$@"
"#;

/// A command that runs a program as root in a copy of this machine's files, in which `shared` is
/// the folder itself.
///
/// # Errors
/// When `unshare` is missing and cannot be installed, or this user cannot become root.
pub fn in_machine_copy(program: &str, arguments: &[&str], shared: &Path) -> Result<Command> {
    let unshare = install::program("unshare", "util-linux")?;
    let mut command = if root::user_id()? == 0 {
        Command::new(unshare)
    } else {
        let sudo = install::find("sudo").ok_or_else(|| Error::new("neither root nor sudo"))?;
        let mut command = Command::new(sudo);
        command.arg("-n").arg(unshare);
        command
    };
    command.args(["--mount", "--pid", "--fork", "--kill-child", "--", "/bin/sh", "-c", MOUNT]);
    command.arg("sh").arg(shared).arg(program).args(arguments);
    Ok(command)
}

//! The folder for the servers of this user, below the system's folder for temporary files.
//!
//! The owner of a folder, a port or an installation holds a lock on a file. The kernel releases it
//! when the owner ends, however it ends: a free lock means no owner. Process ids, which are reused,
//! and clocks are not needed.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::{AtPath, Error, Result};

/// The folder, made if it is not there.
pub(super) fn root() -> Result<PathBuf> {
    let user = user_id()?;
    let path = std::env::temp_dir().join(format!("tollgate-{user}"));
    // Another user may have made it first, to read or replace its files.
    match fs::create_dir(&path) {
        Ok(()) => Ok(path),
        Err(error) => match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() && found.uid() == user => Ok(path),
            Ok(_) => Err(Error::new(format!("{} belongs to another user", path.display()))),
            Err(_) => Err(Error::from(error).during(path.display())),
        },
    }
}

/// The id of the user of this process.
pub(super) fn user_id() -> Result<u32> {
    let me = fs::metadata("/proc/self").at("/proc/self")?;
    Ok(me.uid())
}

/// Waits for a lock that other processes hold only briefly. Dropping it releases it.
pub(super) fn lock(name: &str) -> Result<File> {
    let path = root()?.join(name);
    let file = open_lock(&path)?;
    file.lock().at(&path)?;
    Ok(file)
}

/// Takes a lock, unless a running process holds it.
pub(super) fn try_lock(path: &Path) -> Option<File> {
    let file = open_lock(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}

fn open_lock(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    opened.at(path)
}

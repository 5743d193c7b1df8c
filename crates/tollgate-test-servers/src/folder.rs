//! Temporary folders that do not outlive their owners.
//!
//! A folder is removed when it is dropped. If its owner was killed, the next process that makes a
//! folder removes it: the lock in it can be taken then.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{AtPath, Error, Result};
use super::root::{lock, root, try_lock};

const OWNER: &str = "owner.lock";

/// A folder that is removed with everything in it when this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _owned: File,
}

impl Folder {
    /// Makes a folder with a name of its own that starts with `name`.
    ///
    /// # Errors
    /// When the folder for temporary files cannot be written.
    pub fn new(name: &str) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static SWEPT: Once = Once::new();
        // Under this lock, a folder whose owner lock is free is abandoned, and not being made.
        let _making = lock("folders.lock")?;
        let folders = root()?.join("folders");
        fs::create_dir_all(&folders).at(&folders)?;
        SWEPT.call_once(|| sweep(&folders));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folders.join(format!("{name}-{}-{number}", std::process::id()));
        // An earlier process may have had the same id, and left a folder that could not be removed.
        if path.exists() {
            fs::remove_dir_all(&path).at(&path)?;
        }
        fs::create_dir(&path).at(&path)?;
        let owned = try_lock(&path.join(OWNER));
        let owned = owned.ok_or_else(|| {
            Error::new(format!("{}: is locked by another process", path.display()))
        })?;
        Ok(Self { path, _owned: owned })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is swept later.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders whose owners have ended.
fn sweep(folders: &Path) {
    let Ok(entries) = fs::read_dir(folders) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if let Some(_abandoned) = try_lock(&path.join(OWNER)) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

//! A cache per user, outside of any checkout, for downloads and builds that every test shares.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::error::{AtPath, Error, Result};
use crate::root;

/// The folder of this name in the cache. `make` fills it if it does not exist; one process at a
/// time.
///
/// # Errors
/// When `make` fails, or the cache cannot be written.
pub fn cached(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = cache()?.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let _locked = root::lock(&format!("cache-{name}.lock"))?;
    if folder.is_dir() {
        return Ok(folder);
    }
    // The folder gets its name when it is complete: a process that is killed leaves a partial one,
    // which the next process replaces.
    let partial = cache()?.join(format!("{name}.partial"));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).at(&partial)?;
    make(&partial).map_err(|error| error.during(name))?;
    fs::rename(&partial, &folder).at(&folder)?;
    Ok(folder)
}

/// A name that changes with the contents.
pub(crate) fn named_after(name: &str, contents: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("{name}-{:016x}", hasher.finish())
}

/// Not in root's home: some servers refuse to run as root, and other users cannot read there.
fn cache() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
        return Ok(PathBuf::from(chosen).join("tollgate"));
    }
    if root::user_id()? == 0 {
        return Ok(PathBuf::from("/var/cache/tollgate"));
    }
    let home = std::env::home_dir().ok_or_else(|| Error::new("neither HOME nor XDG_CACHE_HOME"))?;
    Ok(home.join(".cache/tollgate"))
}

//! What takes long to make and is the same for every test: made once per user, outside of any
//! checkout.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::root;

/// A folder of this name, which `make` fills if it is not there. Processes take turns with each.
pub(crate) fn cached(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = cache()?.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let _turn = root::lock(&format!("cache-{name}.lock"))?;
    if folder.is_dir() {
        return Ok(folder);
    }
    // Complete or not there: whoever is killed meanwhile leaves only this, for the next to replace.
    let partial = cache()?.join(format!("{name}.partial"));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial).map_err(|error| Error::from(error).during(partial.display()))?;
    make(&partial).map_err(|error| error.during(name))?;
    fs::rename(&partial, &folder).map_err(|error| Error::from(error).during(folder.display()))?;
    Ok(folder)
}

/// A name that is another when what is installed under it is.
pub(super) fn named_after(name: &str, contents: &[&str]) -> String {
    let mut hasher = DefaultHasher::new();
    contents.hash(&mut hasher);
    format!("{name}-{:016x}", hasher.finish())
}

/// Root's servers may have to run as somebody else, who cannot look into root's home.
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

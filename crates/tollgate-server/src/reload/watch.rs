//! The files of a configuration: when one of them changes, the configuration is applied.
//!
//! Many programs truncate a file before they write it, and replace a certificate and its key one
//! after the other. Half a file can be valid, with half of the policies: two looks must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{Reloaded, Reloader};
use crate::config::{Config, ConfigErrors, Setting, Sources};

/// What a file holds, or why it cannot be read.
type Contents = Result<Vec<u8>, String>;

/// Watches the file of a configuration, and those that it names.
#[derive(Debug)]
pub struct Watch {
    reloader: Reloader,
    flags: Vec<(Setting, String)>,
    file: Option<PathBuf>,
    /// What was applied, or refused.
    tried: BTreeMap<PathBuf, Contents>,
    /// What the last look found.
    seen: BTreeMap<PathBuf, Contents>,
    missing: BTreeSet<PathBuf>,
}

impl Watch {
    /// Watches from now on. The configuration is that of the server: flags, environment, and the
    /// file if there is one.
    #[must_use]
    pub fn new(reloader: Reloader, flags: Vec<(Setting, String)>, file: Option<PathBuf>) -> Self {
        let (tried, missing) = (BTreeMap::new(), BTreeSet::new());
        let mut watch = Self { reloader, flags, file, tried, seen: BTreeMap::new(), missing };
        watch.seen = watch.read();
        watch.tried.clone_from(&watch.seen);
        watch
    }

    /// Looks at the files. Applies the configuration if one of them has changed and two looks
    /// agree; at once if `signalled`, which means that all of them are complete. What came of it,
    /// if it was applied or refused. It waits for the file system.
    pub fn look(&mut self, signalled: bool) -> Option<Result<Reloaded, ConfigErrors>> {
        let now = self.read();
        self.note_missing(&now);
        let is_settled = now == self.seen && now.values().all(Result::is_ok);
        let is_new =
            |(path, contents): (&PathBuf, &Contents)| self.tried.get(path) != Some(contents);
        let is_due = signalled || is_settled && now.iter().any(is_new);
        let applied = is_due.then(|| {
            let applied = self.reloader.apply(self.config(&now));
            // It may name other files now. What is not read yet was read a moment ago.
            let named = self.read();
            self.tried.clone_from(&now);
            for (path, contents) in named {
                self.tried.entry(path).or_insert(contents);
            }
            applied
        });
        self.seen = now;
        applied
    }

    /// The configuration with these contents of its file: it may have changed since.
    fn config(&self, now: &BTreeMap<PathBuf, Contents>) -> Result<Config, ConfigErrors> {
        let (flags, file) = (&*self.flags, self.file.as_deref());
        match file.and_then(|file| Some((file, now.get(file)?.as_ref().ok()?))) {
            Some((file, bytes)) => Config::of_bytes(flags, file, bytes.clone()),
            // Reading it again gives the error.
            None => Config::read(&Sources { flags, file }),
        }
    }

    fn read(&self) -> BTreeMap<PathBuf, Contents> {
        let tls = self.reloader.tls();
        let tls = tls.into_iter().flat_map(|tls| [Some(tls.cert), Some(tls.key), tls.client_ca]);
        let paths = tls.flatten().chain(self.file.clone());
        let contents = |path: &Path| std::fs::read(path).map_err(|error| error.to_string());
        paths.map(|path| (path.clone(), contents(&path))).collect()
    }

    /// Says which files are gone in two looks, once each, and which of them are back.
    fn note_missing(&mut self, now: &BTreeMap<PathBuf, Contents>) {
        for (path, contents) in now {
            let (file, was_missing) = (path.display().to_string(), self.missing.contains(path));
            match (contents, self.seen.get(path)) {
                (Err(why), Some(Err(_))) if !was_missing => {
                    self.missing.insert(path.clone());
                    self.reloader.file_changed(&file, Some(why), self.missing.len());
                }
                (Ok(_), _) if was_missing => {
                    self.missing.remove(path);
                    self.reloader.file_changed(&file, None, self.missing.len());
                }
                _ => {}
            }
        }
        // A file that the configuration does not name any more is of no use.
        self.missing.retain(|path| now.contains_key(path));
    }
}

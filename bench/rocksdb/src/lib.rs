//! In the place of RocksDB: a database that cannot be opened.
//!
//! limitador compiles its Redis storage only together with its disk storage, and RocksDB needs
//! libclang and a quarter of an hour of C++. This has the few names that limitador's disk storage
//! mentions. A database is an empty type, so that nothing here can ever run.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

/// A database that does not exist.
pub struct DBWithThreadMode<T>(Infallible, PhantomData<T>);

/// The same, by its other name.
pub type DB = DBWithThreadMode<MultiThreaded>;

/// A mode of a database.
pub struct MultiThreaded;

/// Why there is no database.
#[derive(Debug)]
pub struct Error;

/// Kinds of errors that limitador distinguishes.
#[derive(Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no database.
    NotSupported,
    /// Never.
    TimedOut,
    /// Never.
    TryAgain,
}

impl Error {
    /// Always the same.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::NotSupported
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RocksDB is not part of this program")
    }
}

impl std::error::Error for Error {}

/// Where an iteration would begin.
pub enum IteratorMode {
    /// At the first key.
    Start,
}

/// What a filter would do.
pub enum CompactionDecision {
    /// Keep a value.
    Keep,
    /// Remove a value.
    Remove,
}

/// How values would be compressed.
pub enum DBCompressionType {
    /// Not at all.
    None,
    /// By bzip2.
    Bz2,
}

/// Values that would be merged.
pub struct MergeOperands(Infallible);

impl<'a> IntoIterator for &'a MergeOperands {
    type Item = &'a [u8];
    type IntoIter = std::iter::Empty<&'a [u8]>;

    fn into_iter(self) -> Self::IntoIter {
        match self.0 {}
    }
}

impl MergeOperands {
    /// The values.
    pub fn iter(&self) -> std::iter::Empty<&[u8]> {
        match self.0 {}
    }
}

/// Options, which change nothing.
#[derive(Default)]
pub struct Options;

impl Options {
    /// Ignored.
    pub fn set_compression_type(&mut self, _: DBCompressionType) {}

    /// Ignored.
    pub fn create_if_missing(&mut self, _: bool) {}

    /// Ignored.
    pub fn set_compaction_filter<F>(&mut self, _: &str, _: F)
    where
        F: FnMut(u32, &[u8], &[u8]) -> CompactionDecision + Send + 'static,
    {
    }

    /// Ignored.
    pub fn set_merge_operator_associative<F>(&mut self, _: &str, _: F)
    where
        F: Fn(&[u8], Option<&[u8]>, &MergeOperands) -> Option<Vec<u8>>,
        F: Clone + Send + Sync + 'static,
    {
    }
}

type Entries = std::iter::Empty<Result<(Box<[u8]>, Box<[u8]>), Error>>;

impl<T> DBWithThreadMode<T> {
    /// Always an error.
    pub fn open(_: &Options, _: impl AsRef<Path>) -> Result<Self, Error> {
        Err(Error)
    }

    /// Never.
    pub fn get(&self, _: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        match self.0 {}
    }

    /// Never.
    pub fn delete(&self, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.0 {}
    }

    /// Never.
    pub fn merge(&self, _: impl AsRef<[u8]>, _: impl AsRef<[u8]>) -> Result<(), Error> {
        match self.0 {}
    }

    /// Never.
    pub fn prefix_iterator(&self, _: impl AsRef<[u8]>) -> Entries {
        match self.0 {}
    }

    /// Never.
    pub fn iterator(&self, _: IteratorMode) -> Entries {
        match self.0 {}
    }
}

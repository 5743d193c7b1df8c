//! PostgreSQL, in two versions that are far apart. `programs` finds or downloads one, `template`
//! makes the data of an empty server once, `builder` has the spec.

mod builder;
mod programs;
mod template;

pub use builder::PostgresBuilder;

use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use super::certificates::Certificates;
use super::error::Result;
use super::percent::encoded;
use super::server::Server;

/// Which PostgreSQL to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PgVersion {
    /// The oldest that is tested.
    V15,
    /// The newest that is tested.
    V18,
}

impl PgVersion {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::V15, Self::V18];

    /// Its number.
    #[must_use]
    pub const fn major(self) -> u32 {
        match self {
            Self::V15 => 15,
            Self::V18 => 18,
        }
    }
}

/// A PostgreSQL server. A crash of the server loses no committed data; a crash of the machine may,
/// because nothing is forced to disk.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    built: PostgresBuilder,
}

impl Postgres {
    /// Starts a server that needs no password.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub fn start(version: PgVersion) -> Result<Self> {
        Self::builder(version).start()
    }

    /// A server with other settings.
    #[must_use]
    pub const fn builder(version: PgVersion) -> PostgresBuilder {
        PostgresBuilder::new(version)
    }

    /// The URL of the database `postgres`, for the user `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The URL of one of its databases.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        let password = self.built.password_in_use();
        let password = password.map(|password| format!(":{}", encoded(password)));
        let login = format!("postgres{}", password.unwrap_or_default());
        format!("postgres://{login}@127.0.0.1:{}/{database}", self.port())
    }

    /// The certificates of a server with TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<Certificates> {
        self.built.certificates(self.resources())
    }

    /// The folder of [`PostgresBuilder::small_disk`], as the server sees it.
    #[must_use]
    pub fn small_disk(&self) -> Option<PathBuf> {
        self.built.small_disk_path(self.resources())
    }

    /// Makes an empty database for a test that shares the server; its name.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn fresh_database(&self) -> Result<String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("fresh_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("create database {name}"))?;
        Ok(name)
    }

    /// `psql` without arguments: to connect as an application would.
    ///
    /// # Errors
    /// When it cannot be found.
    pub fn psql(&self) -> Result<Command> {
        self.built.psql()
    }

    /// Runs statements in the database `postgres`; one line per row, with `|` between columns.
    /// Through a socket in the folder of the server, without password and TLS.
    ///
    /// # Errors
    /// The server's error.
    pub fn sql(&self, statements: &str) -> Result<String> {
        self.sql_in("postgres", statements)
    }

    /// As [`Self::sql`], in one of its databases.
    ///
    /// # Errors
    /// The server's error.
    pub fn sql_in(&self, database: &str, statements: &str) -> Result<String> {
        self.built.sql(self.resources(), database, statements)
    }
}

/// The methods of a server.
impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

//! The settings of a PostgreSQL server, and its spec.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::template::{copy_to, give, run_as};
use super::{PgVersion, Postgres, programs};
use crate::certificates::Certificates;
use crate::error::{AtPath, Error, Result};
use crate::process::server_command;
use crate::server::{Resources, Server, ServerSpec};
use crate::small_disk::on_small_disk;

const DATA: &str = "data";
const ACCESS: &str = "pg_hba.conf";
const SMALL_DISK: &str = "small";

/// A PostgreSQL server that is still to be started.
#[derive(Clone, Debug)]
pub struct PostgresBuilder {
    version: PgVersion,
    password: Option<String>,
    tls: bool,
    settings: Vec<String>,
    small_disk: Option<u64>,
}

impl PostgresBuilder {
    pub(super) const fn new(version: PgVersion) -> Self {
        Self { version, password: None, tls: false, settings: Vec::new(), small_disk: None }
    }

    /// The user `postgres` needs this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Accepts only TLS at its port, with a certificate made for it.
    #[must_use]
    pub const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Changes a setting, such as `max_connections=10`.
    #[must_use]
    pub fn config(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Has a disk of this many bytes for a tablespace.
    #[must_use]
    pub const fn small_disk(mut self, bytes: u64) -> Self {
        self.small_disk = Some(bytes);
        self
    }

    /// Starts the server; returns once it answers.
    ///
    /// # Errors
    /// When it cannot be installed or started.
    pub fn start(self) -> Result<Postgres> {
        let postgres = Postgres { server: Server::start(self.clone())?, built: self };
        if let Some(password) = &postgres.built.password {
            let password = password.replace('\'', "''");
            postgres.sql(&format!("alter user postgres password '{password}'"))?;
        }
        Ok(postgres)
    }

    pub(super) fn password_in_use(&self) -> Option<&str> {
        self.password.as_deref()
    }

    pub(super) fn certificates(&self, resources: &Resources) -> Option<Certificates> {
        self.tls.then(|| Certificates::in_folder(resources.folder()))
    }

    pub(super) fn small_disk_path(&self, resources: &Resources) -> Option<PathBuf> {
        self.small_disk.map(|_| resources.path(SMALL_DISK))
    }

    pub(super) fn psql(&self) -> Result<Command> {
        let mut psql = Command::new(programs::folder(self.version)?.join("psql"));
        psql.stdin(Stdio::null()).env("LC_ALL", "C");
        Ok(psql)
    }

    /// Through psql, at the socket in its folder, where every user is trusted.
    pub(super) fn sql(
        &self,
        resources: &Resources,
        database: &str,
        statements: &str,
    ) -> Result<String> {
        let mut psql = self.psql()?;
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres"]);
        psql.arg("-h").arg(resources.folder()).args(["-p", &resources.port().to_string()]);
        psql.args(["-d", database, "-c", statements]).env("PGCONNECT_TIMEOUT", "5");
        let output = psql.output()?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        Err(Error::new(String::from_utf8_lossy(&output.stderr).trim()))
    }

    /// The access rules: trust at the socket in the folder, the chosen method on the network.
    fn access(&self) -> String {
        let how = if self.password.is_some() { "scram-sha-256" } else { "trust" };
        let network = if self.tls { "hostssl" } else { "host" };
        format!("local all all trust\n{network} all all 127.0.0.1/32 {how}\n")
    }
}

impl ServerSpec for PostgresBuilder {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        let user = programs::user()?;
        // The server makes its socket there.
        give(resources.folder(), user)?;
        copy_to(&resources.path(DATA), self.version)?;
        if let Some(disk) = self.small_disk_path(resources) {
            fs::create_dir(&disk).at(&disk)?;
            give(&disk, user)?;
        }
        resources.write(ACCESS, &self.access())?;
        if self.tls {
            let certificates = Certificates::generate(resources.folder())?;
            give(&certificates.server_key(), user)?;
        }
        Ok(())
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut settings = vec![
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={}", resources.port()),
            format!("unix_socket_directories={}", resources.folder().display()),
            format!("hba_file={}", resources.path(ACCESS).display()),
            "max_connections=200".to_owned(),
            // With these, only a crash of the machine loses data.
            "fsync=off".to_owned(),
            "full_page_writes=off".to_owned(),
        ];
        if let Some(certificates) = self.certificates(resources) {
            settings.push("ssl=on".to_owned());
            let certificate = certificates.server_certificate();
            settings.push(format!("ssl_cert_file={}", certificate.display()));
            settings.push(format!("ssl_key_file={}", certificates.server_key().display()));
        }
        // Last, so that a test can override any of the above.
        settings.extend(self.settings.iter().cloned());
        let mut command = server_command(programs::folder(self.version)?.join("postgres"))?;
        command.arg("-D").arg(resources.path(DATA));
        for setting in settings {
            command.args(["-c", &setting]);
        }
        if let (Some(bytes), Some(disk)) = (self.small_disk, self.small_disk_path(resources)) {
            command = on_small_disk(&command, &disk, bytes)?;
        }
        run_as(&mut command, programs::user()?);
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        self.sql(resources, "postgres", "select 1").map(drop)
    }

    /// It shuts down fast, and cleans up what a kill would leave in the kernel.
    fn stop_signal(&self) -> &'static str {
        "INT"
    }
}

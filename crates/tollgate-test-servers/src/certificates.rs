//! Certificates for servers and clients of one test, made when the test starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{AtPath, Result};
use super::install::{program, run};

const DAYS: &str = "30";
const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

/// An authority, and what it has signed: a certificate for servers at `localhost` and 127.0.0.1,
/// and one for a client.
#[derive(Clone, Debug)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes them in a folder, which must exist.
    ///
    /// # Errors
    /// When the folder cannot be written, or openssl is missing and cannot be installed.
    pub fn generate(folder: &Path) -> Result<Self> {
        let made = Self::in_folder(folder);
        let extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n\
                          extendedKeyUsage=serverAuth,clientAuth\n";
        fs::write(made.path("extensions"), extensions).at(folder)?;
        let mut authority = made.openssl()?;
        authority.args(["req", "-x509", "-days", DAYS]).args(KEY);
        authority.args(["-subj", "/CN=Tollgate test authority", "-out", "ca.crt"]);
        // The default configuration marks what signs itself as an authority.
        run(authority.args(["-keyout", "ca.key"]))?;
        made.sign("server", "/CN=localhost")?;
        made.sign("client", "/CN=client")?;
        Ok(made)
    }

    /// The certificates that were made in a folder.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The certificate of the authority, which clients trust.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// The certificate of the server.
    #[must_use]
    pub fn server_certificate(&self) -> PathBuf {
        self.path("server.crt")
    }

    /// The key of the server.
    #[must_use]
    pub fn server_key(&self) -> PathBuf {
        self.path("server.key")
    }

    /// The certificate of a client.
    #[must_use]
    pub fn client_certificate(&self) -> PathBuf {
        self.path("client.crt")
    }

    /// The key of a client.
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.path("client.key")
    }

    fn sign(&self, name: &str, subject: &str) -> Result<()> {
        let [key, request, certificate] = ["key", "csr", "crt"].map(|end| format!("{name}.{end}"));
        let mut signing = self.openssl()?;
        signing.arg("req").args(KEY).args(["-subj", subject, "-keyout", &key, "-out", &request]);
        run(&mut signing)?;
        let mut signed = self.openssl()?;
        signed.args(["x509", "-req", "-days", DAYS, "-in", &request, "-out", &certificate]);
        signed.args(["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]);
        run(signed.args(["-extfile", "extensions"]))
    }

    fn openssl(&self) -> Result<Command> {
        let mut command = Command::new(program("openssl", "openssl")?);
        command.current_dir(&self.folder);
        Ok(command)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

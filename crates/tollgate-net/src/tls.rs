//! TLS with verification, by the certificate authorities of the operating system or by given ones.
//!
//! Verification cannot be switched off. For a server with a private authority, `ca` names its file.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate_core::{Code, Error, Result};

/// An encrypted connection.
pub type Encrypted = TlsStream<TcpStream>;

/// The files to use. They are read once, when a client is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate authorities that replace those of the operating system.
    pub ca: Option<String>,
    /// The certificate of this client, and its key.
    pub identity: Option<(String, String)>,
    /// The name to expect in the server's certificate instead of the host's.
    pub server_name: Option<String>,
}

/// Encrypts connections.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl core::fmt::Debug for Tls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read, is not PEM, or a key does not fit its certificate.
    pub fn new(files: &TlsFiles) -> Result<Self> {
        let roots = roots("ca", files.ca.as_deref())?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::config("url", error.to_string()))?
            .with_root_certificates(roots);
        let config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates("cert", certificate)?;
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| Error::config("key", format!("{key}: {error}")))?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| Error::config("key", error.to_string()))?
            }
        };
        let server_name = files.server_name.as_deref();
        let server_name = server_name.map(|given| name("server_name", given)).transpose()?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server_name })
    }

    /// Encrypts a connection to `host` and verifies the certificate of the server.
    ///
    /// # Errors
    /// When the handshake or the verification fails.
    pub async fn encrypt(&self, host: &str, stream: TcpStream) -> Result<Encrypted> {
        let name = match &self.server_name {
            Some(given) => given.clone(),
            None => name("host", host)?,
        };
        self.connector.connect(name, stream).await.map_err(|error| {
            Error::new(Code::StoreUnavailable, format!("TLS with {host} failed: {error}"))
        })
    }
}

fn name(field: &'static str, text: &str) -> Result<ServerName<'static>> {
    let accepted = "a DNS name or an IP address is needed to verify a certificate";
    ServerName::try_from(text.to_owned()).map_err(|_| Error::config(field, accepted))
}

fn certificates(field: &'static str, path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let invalid = |error| Error::config(field, format!("{path}: {error}"));
    let read = CertificateDer::pem_file_iter(path).map_err(invalid)?;
    let read = read.collect::<core::result::Result<Vec<_>, _>>().map_err(invalid)?;
    if read.is_empty() {
        return Err(Error::config(field, format!("{path}: contains no PEM certificate")));
    }
    Ok(read)
}

/// The certificate authorities of a PEM file, or those of the operating system.
///
/// # Errors
/// `config_invalid` naming `field`, the setting that names the file, when there are none.
pub fn roots(field: &'static str, file: Option<&str>) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(path) = file else {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let message =
                format!("no certificate authority is installed; name one with {field}=FILE");
            return Err(Error::config(field, message));
        }
        return Ok(roots);
    };
    for certificate in certificates(field, path)? {
        let added = roots.add(certificate);
        added.map_err(|error| Error::config(field, format!("{path}: {error}")))?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_an_error_of_its_setting() {
        for path in ["/nowhere/ca.pem", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")] {
            let error = roots("sslrootcert", Some(path)).unwrap_err();
            assert_eq!(error.field(), Some("sslrootcert"), "{error}");
            assert!(error.to_string().contains(path), "{error}");
        }
    }
}

//! Encryption with verification: by the certificates that the machine trusts, or by given ones.
//!
//! There is no way to switch verification off.

use core::fmt;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate_core::{Code, Error, Result};

/// Encrypts connections.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl Tls {
    /// Trusts the authorities in a file in PEM form, or those of the machine.
    ///
    /// # Errors
    /// `config_invalid` naming `ca` when the file cannot be read or there is no authority.
    pub(crate) fn new(ca: Option<&str>) -> Result<Self> {
        let roots = match ca {
            Some(path) => given(path)?,
            None => machines()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::config("url", error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Encrypts a connection, once the server has proven to be that host.
    pub(super) async fn encrypt(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Error::config("url", "needs a DNS name or an IP address to verify a certificate")
        })?;
        self.0.connect(name, stream).await.map_err(|error| {
            Error::new(Code::StoreUnavailable, format!("TLS with {host} failed: {error}"))
        })
    }
}

fn given(path: &str) -> Result<RootCertStore> {
    let wrong = |error| Error::config("ca", format!("{path}: {error}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(wrong)? {
        let added = roots.add(certificate.map_err(wrong)?);
        added.map_err(|error| Error::config("ca", format!("{path}: {error}")))?;
    }
    if roots.is_empty() {
        return Err(Error::config("ca", format!("{path}: holds no certificate in PEM form")));
    }
    Ok(roots)
}

fn machines() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let message = "this machine trusts no certificate authority; name one with ca=FILE";
        return Err(Error::config("ca", message));
    }
    Ok(roots)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

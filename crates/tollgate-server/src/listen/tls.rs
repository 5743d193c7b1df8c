//! TLS for every listener: a certificate, its key, and the authority of client certificates. What
//! is in force can be replaced: connections that are open keep what they began with.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tollgate::{Error, Result};

use crate::config::Tls;

/// The contents of the files of TLS, read once for all listeners. `Debug` omits them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    cert: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

/// Accepts TLS with what is in force. `Debug` omits its keys.
#[derive(Clone)]
pub(crate) struct Acceptor {
    config: Arc<ArcSwap<ServerConfig>>,
    protocol: Option<&'static [u8]>,
}

impl TlsFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// `config_invalid` naming the setting.
    pub(crate) fn read(tls: &Tls) -> Result<Self> {
        let read = |field, path: &Path| {
            let unread = |error| Error::config(field, format!("cannot be read: {error}"));
            std::fs::read(path).map_err(unread)
        };
        let client_ca = tls.client_ca.as_deref().map(|path| read("tls_client_ca", path));
        Ok(Self {
            cert: read("tls_cert", &tls.cert)?,
            key: read("tls_key", &tls.key)?,
            client_ca: client_ca.transpose()?,
        })
    }

    /// What a listener needs; `protocol` is negotiated by ALPN.
    fn config(&self, protocol: Option<&[u8]>) -> Result<Arc<ServerConfig>> {
        let chain = certificates("tls_cert", &self.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| Error::config("tls_key", format!("cannot be read: {error}")))?;
        let provider = Arc::new(default_provider());
        let invalid = |error| Error::config("tls_cert", format!("cannot be used: {error}"));
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(invalid)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let refused = |error: String| {
                    Error::config("tls_client_ca", format!("cannot be used: {error}"))
                };
                let mut roots = RootCertStore::empty();
                for certificate in certificates("tls_client_ca", pem)? {
                    roots.add(certificate).map_err(|error| refused(error.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = verifier.build().map_err(|error| refused(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(invalid)?;
        config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
        Ok(Arc::new(config))
    }
}

impl Acceptor {
    pub(super) fn new(files: &TlsFiles, protocol: Option<&'static [u8]>) -> Result<Self> {
        let config = Arc::new(ArcSwap::new(files.config(protocol)?));
        Ok(Self { config, protocol })
    }

    /// What accepts the next connection.
    pub(super) fn current(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.load_full())
    }

    /// What would accept connections with other files.
    ///
    /// # Errors
    /// `config_invalid` naming the setting.
    pub(crate) fn prepare(&self, files: &TlsFiles) -> Result<Arc<ServerConfig>> {
        files.config(self.protocol)
    }

    /// Accepts connections with what was prepared from now on.
    pub(crate) fn replace(&self, config: Arc<ServerConfig>) {
        self.config.store(config);
    }
}

fn certificates(field: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let unread = |error| Error::config(field, format!("cannot be read: {error}"));
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(unread)?;
    if found.is_empty() {
        return Err(Error::config(field, "holds no certificate; accepted: PEM"));
    }
    Ok(found)
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsFiles").finish_non_exhaustive()
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

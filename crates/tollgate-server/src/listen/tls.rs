//! TLS for every listener: a certificate, its key, and the authority of client certificates.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tollgate::{Error, Result};

use crate::config::Tls;

/// Reads the files; `protocol` is negotiated by ALPN.
pub(super) fn acceptor(tls: &Tls, protocol: Option<&[u8]>) -> Result<TlsAcceptor> {
    let chain = certificates("tls_cert", &tls.cert)?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| Error::config("tls_key", format!("cannot be read: {error}")))?;
    let provider = Arc::new(default_provider());
    let invalid = |error| Error::config("tls_cert", format!("cannot be used: {error}"));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    let builder = match &tls.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let refused =
                |error: String| Error::config("tls_client_ca", format!("cannot be used: {error}"));
            let mut roots = RootCertStore::empty();
            for certificate in certificates("tls_client_ca", path)? {
                roots.add(certificate).map_err(|error| refused(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| refused(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(invalid)?;
    config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(field: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let unread = |error| Error::config(field, format!("cannot be read: {error}"));
    let found = CertificateDer::pem_file_iter(path).map_err(unread)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(unread)?;
    if found.is_empty() {
        return Err(Error::config(field, "holds no certificate; accepted: PEM"));
    }
    Ok(found)
}

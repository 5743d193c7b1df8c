//! Encryption, through something that decrypts in front of the real server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tollgate_core::Code;
use tollgate_denokv::DenoKv;
use tollgate_test_servers::shared::denokv;
use tollgate_test_servers::{Certificates, Folder};

use crate::support::{block_on, config, limit, take};

/// Decrypts, and passes on what it gets. It ends with the test program.
async fn decrypting(certificates: &Certificates, to: SocketAddr) -> SocketAddr {
    let chain = CertificateDer::pem_file_iter(certificates.server_certificate()).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.server_key()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.map(Result::unwrap).collect(), key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust the certificate closes the connection.
                if let Ok(mut client) = acceptor.accept(client).await {
                    let mut server = TcpStream::connect(to).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    addr
}

fn address(addr: SocketAddr, ca: &Path) -> String {
    format!("denokv+https://{}@{addr}?ca={}", denokv().token(), ca.display())
}

#[test]
fn a_server_is_trusted_if_its_authority_is() {
    let folders = [Folder::new("denokv-tls").unwrap(), Folder::new("denokv-tls").unwrap()];
    let [own, other] = folders.each_ref().map(|f| Certificates::generate(f.path()).unwrap());
    block_on(async {
        let addr = decrypting(&own, denokv().addr()).await;
        let single = limit(1);
        let store = DenoKv::connect(config(&address(addr, &own.authority()))).await.unwrap();
        assert!(take(&store, &single, "a").await.unwrap());
        assert!(!take(&store, &single, "a").await.unwrap());
        let error = DenoKv::connect(config(&address(addr, &other.authority()))).await.unwrap_err();
        assert_eq!(error.code(), Code::StoreUnavailable, "{error}");
        assert!(error.message().contains("TLS"), "{error}");
    });
}

#[test]
fn authorities_that_cannot_be_read_are_refused_by_name() {
    let folder = Folder::new("denokv-tls").unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for file in [&empty, &folder.path().join("missing.pem")] {
        let error = DenoKv::open(config(&address(denokv().addr(), file))).unwrap_err();
        assert_eq!((error.code(), error.field()), (Code::ConfigInvalid, Some("ca")), "{error}");
    }
}

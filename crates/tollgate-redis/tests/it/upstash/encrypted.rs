//! HTTPS: the certificate is verified, and no other server gets the token.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tollgate_core::{Code, Result};
use tollgate_redis::transport::{Reply, Transport};
use tollgate_redis::upstash::{NativeHttp, Upstash};
use tollgate_test_servers::{Certificates, Folder, UpstashShim, shared};

use super::{LONG_TIMEOUT, TOKEN, shim, with_long_timeouts};
use crate::client::{count, text};

/// Ends TLS in front of a shim; the port.
async fn encrypt(shim: &UpstashShim, files: &Certificates) -> u16 {
    let chain = CertificateDer::pem_file_iter(files.server_certificate()).unwrap();
    let chain = chain.collect::<core::result::Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(files.server_key()).unwrap();
    let ring = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, server) = (listener.local_addr().unwrap().port(), shim.addr());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut server = TcpStream::connect(server).await?;
                tokio::io::copy_bidirectional(&mut stream, &mut server).await
            });
        }
    });
    port
}

async fn ask(http: NativeHttp, url: &str) -> Result<Reply> {
    Upstash::over(http, url, TOKEN).unwrap().send(&count("encrypted", "x")).await
}

#[tokio::test]
async fn a_certificate_is_verified() {
    let shim = shim(shared::redis());
    let folder = Folder::new("upstash-tls").unwrap();
    let files = Certificates::generate(folder.path()).unwrap();
    let port = encrypt(&shim, &files).await;
    let url = format!("https://localhost:{port}");
    let trusting = || {
        let http = NativeHttp::trusting(&files.authority()).unwrap();
        http.connect_timeout(LONG_TIMEOUT).reply_timeout(LONG_TIMEOUT)
    };
    assert_eq!(ask(trusting(), &url).await.unwrap(), text("x"));
    assert_eq!(shim.requests(), 1);

    // No authority that the machine trusts has signed it.
    let error = ask(with_long_timeouts(), &url).await.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true), "{error}");
    // It is not for this name.
    let error = ask(trusting(), &format!("https://127.0.0.2:{port}")).await.unwrap_err();
    assert_eq!((error.code(), error.is_not_sent()), (Code::StoreUnavailable, true), "{error}");
    // Neither got as far as a request.
    assert_eq!(shim.requests(), 1);
}

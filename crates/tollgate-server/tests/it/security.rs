//! Tokens on every protocol, and TLS with and without certificates of clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tollgate_proto::tollgate_v1 as pb;
use tollgate_server::config::Setting;
use tollgate_server::{Config, Server};
use tonic::{Code, Request};

use crate::support::Running;

const CALLER: &str = "token-of-a-caller";
const ADMIN: &str = "token-of-an-admin";

async fn server(more: &[(Setting, String)]) -> Running {
    let any = || "127.0.0.1:0".to_owned();
    let mut flags = vec![(Setting::Http, any()), (Setting::Grpc, any()), (Setting::Resp, any())];
    flags.extend_from_slice(more);
    let config = Config::of_text(&flags, |_| None, None).unwrap();
    Running::of(Server::bind(config).await.unwrap())
}

async fn guarded() -> Running {
    server(&[
        (Setting::Tokens, format!("another-long-token, {CALLER}")),
        (Setting::AdminTokens, ADMIN.to_owned()),
    ])
    .await
}

#[tokio::test]
async fn grpc_needs_a_token_of_the_right_kind() {
    let server = guarded().await;
    let mut client = server.grpc().await;
    let with = |token: Option<&str>| {
        let mut request =
            Request::new(pb::ResetRequest { key: "k".to_owned(), ..Default::default() });
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        request
    };
    for token in [None, Some("nonsense")] {
        let status = client.reset(with(token)).await.unwrap_err();
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    let status = client.reset(with(Some(CALLER))).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert!(client.reset(with(Some(ADMIN))).await.is_ok());
    let request = pb::AcquireRequest { key: "k".to_owned(), ..Default::default() };
    assert_eq!(client.acquire(request.clone()).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(client.acquire(with(Some(CALLER)).map(|_| request)).await.is_ok());
    server.end().await;
}

#[tokio::test]
async fn resp_needs_a_token() {
    let server = guarded().await;
    let mut client = server.resp().await;
    assert!(client.call(&["TG.ACQUIRE", "default", "k"]).await.starts_with("-NOAUTH"));
    assert!(client.call(&["PING"]).await.starts_with("-NOAUTH"));
    assert!(client.call(&["HELLO", "3"]).await.starts_with("-NOAUTH"));
    assert!(client.call(&["AUTH", "nonsense"]).await.starts_with("-WRONGPASS"));
    assert!(client.call(&["HELLO", "3", "AUTH", "me", "nonsense"]).await.starts_with("-WRONGPASS"));
    assert_eq!(client.call(&["AUTH", CALLER]).await, "+OK");
    assert_eq!(client.five(&["TG.ACQUIRE", "default", "k"]).await[0], 1);
    // A wrong token revokes the right to send commands.
    assert!(client.call(&["AUTH", "me", "nonsense"]).await.starts_with("-WRONGPASS"));
    assert!(client.call(&["PING"]).await.starts_with("-NOAUTH"));
    let mut client = server.resp().await;
    assert_eq!(client.call(&["HELLO", "3", "AUTH", "me", ADMIN]).await, "%7");
    server.end().await;
}

/// A client that sends no token must not occupy a connection for long, whatever it sends.
#[tokio::test]
async fn resp_disconnects_clients_without_a_token() {
    let server = guarded().await;
    let mut anonymous = server.resp().await;
    assert!(anonymous.call(&["PING"]).await.starts_with("-NOAUTH"));
    let mut client = server.resp().await;
    assert_eq!(client.call(&["AUTH", CALLER]).await, "+OK");
    assert_eq!(anonymous.rest_bytes().await, b"", "it is closed without a reply");
    assert_eq!(client.call(&["PING"]).await, "+PONG");
    server.end().await;
}

/// A root, and certificates that it has signed, as files.
pub(crate) struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub(crate) fn make(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(folder.join("root.pem"), root.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &root).unwrap();
            fs::write(folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(crate) fn settings(&self) -> Vec<(Setting, String)> {
        vec![
            (Setting::TlsCert, self.path("server.pem")),
            (Setting::TlsKey, self.path("server.key")),
        ]
    }

    /// A client that trusts the root, with or without a certificate of its own.
    pub(crate) fn connector(&self, has_certificate: bool) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("root.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = if has_certificate {
            let chain = vec![CertificateDer::from_pem_file(self.path("client.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(self.path("client.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        TlsConnector::from(Arc::new(config))
    }
}

/// Sends bytes over TLS and reads until the server closes.
pub(crate) async fn exchange(
    connector: &TlsConnector,
    address: std::net::SocketAddr,
    bytes: &[u8],
) -> std::io::Result<String> {
    let stream = TcpStream::connect(address).await?;
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
    stream.write_all(bytes).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

pub(crate) const HTTP: &[u8] =
    b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
    Content-Length: 11\r\n\r\n{\"key\":\"k\"}";

#[tokio::test]
async fn every_listener_supports_tls() {
    let certificates = Certificates::make("tls");
    let server = server(&certificates.settings()).await;
    let connector = certificates.connector(false);
    let http = exchange(&connector, server.at.http.unwrap(), HTTP).await.unwrap();
    assert!(http.contains("\"allowed\":true"), "{http}");
    let resp = exchange(&connector, server.at.resp.unwrap(), b"PING\r\nQUIT\r\n").await.unwrap();
    assert_eq!(resp, "+PONG\r\n+OK\r\n");
    // The preface of HTTP/2 and empty settings; the server answers with its settings.
    let stream = TcpStream::connect(server.at.grpc.unwrap()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "a frame of settings");
    drop(stream);
    // Without TLS there is no answer.
    let mut plain = server.resp().await;
    plain.send(b"PING\r\n").await;
    assert!(!plain.rest_bytes().await.starts_with(b"+PONG"));
    server.end().await;
}

#[tokio::test]
async fn clients_without_a_certificate_are_refused_if_one_is_needed() {
    let certificates = Certificates::make("mtls");
    let mut settings = certificates.settings();
    settings.push((Setting::TlsClientCa, certificates.path("root.pem")));
    let server = server(&settings).await;
    let address = server.at.http.unwrap();
    let with = exchange(&certificates.connector(true), address, HTTP).await.unwrap();
    assert!(with.contains("\"allowed\":true"), "{with}");
    let without = exchange(&certificates.connector(false), address, HTTP).await;
    assert!(without.is_err(), "{without:?}");
    // A certificate makes a caller, and no administrator.
    let reset = String::from_utf8(HTTP.to_vec()).unwrap().replace("acquire", "reset");
    let reset = exchange(&certificates.connector(true), address, reset.as_bytes()).await.unwrap();
    assert!(reset.starts_with("HTTP/1.1 403 "), "{reset}");
    let foreign = Certificates::make("foreign");
    // Signed by another root; the client trusts the root of the server.
    fs::copy(certificates.path("root.pem"), foreign.path("root.pem")).unwrap();
    assert!(exchange(&foreign.connector(true), address, HTTP).await.is_err());
    server.end().await;
}

#[tokio::test]
async fn errors_name_the_file_setting() {
    let certificates = Certificates::make("wrong");
    let path = |name: &str| certificates.path(name);
    let cases = [
        ([(Setting::TlsCert, path("none.pem")), (Setting::TlsKey, path("server.key"))], "tls_cert"),
        (
            [(Setting::TlsCert, path("server.key")), (Setting::TlsKey, path("server.key"))],
            "tls_cert",
        ),
        (
            [(Setting::TlsCert, path("server.pem")), (Setting::TlsKey, path("server.pem"))],
            "tls_key",
        ),
    ];
    for (settings, field) in cases {
        let mut flags = vec![(Setting::Http, "127.0.0.1:0".to_owned())];
        flags.extend(settings);
        flags.extend([(Setting::Grpc, "off".to_owned()), (Setting::Resp, "off".to_owned())]);
        let config = Config::of_text(&flags, |_| None, None).unwrap();
        assert_eq!(Server::bind(config).await.unwrap_err().field(), Some(field));
    }
    let half = [(Setting::TlsCert, path("server.pem"))];
    assert!(Config::of_text(&half, |_| None, None).is_err());
}

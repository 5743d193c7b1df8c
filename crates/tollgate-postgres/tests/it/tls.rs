//! TLS, passwords, and what is said when they are wrong.

use tollgate_core::Code;
use tollgate_postgres::Postgres;
use tollgate_test_servers::PgVersion;

use crate::support::{block_on, config, limit, take};

#[test]
fn certificates_are_checked_and_passwords_never_repeated() {
    let server = tollgate_test_servers::Postgres::builder(PgVersion::V15)
        .tls()
        .password("s3cret")
        .start()
        .unwrap();
    let authority = server.certificates().unwrap().authority();
    let authority = authority.to_str().unwrap();
    block_on(async {
        let store = async |parameters: &str| {
            Postgres::connect(config(&format!("{}?{parameters}", server.url()))).await
        };
        let trusted = format!("sslmode=verify-full&sslrootcert={authority}");
        let verified = store(&trusted).await.unwrap();
        assert!(take(&verified, &limit(1), "a").await.unwrap());
        let untrusted = store("sslmode=verify-full").await.unwrap_err();
        assert!(untrusted.message().contains("certificate"), "{untrusted}");
        assert!(take(&store("sslmode=prefer").await.unwrap(), &limit(1), "a").await.unwrap());
        let plain = store("sslmode=disable").await.unwrap_err();
        assert_eq!(plain.code(), Code::ConfigInvalid, "{plain}");
        let elsewhere = store("sslmode=require&sslrootcert=/nowhere").await.unwrap_err();
        assert_eq!(elsewhere.field(), Some("sslrootcert"), "{elsewhere}");
        let wrong = server.url().replace("s3cret", "gu3ss");
        let wrong = Postgres::connect(config(&format!("{wrong}?{trusted}"))).await.unwrap_err();
        assert_eq!(wrong.code(), Code::ConfigInvalid, "{wrong}");
        for error in [untrusted, plain, elsewhere, wrong] {
            let said = format!("{error} {error:?}");
            assert!(!said.contains("s3cret") && !said.contains("gu3ss"), "{said}");
        }
    });
}

//! The banner of `tollgate serve`: listeners, store, outage modes, and one command to try. It stays
//! short with any number of policies.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::server::ParsedCertificate;
use tollgate_server::policy::Policies;
use tollgate_server::{Addresses, Config};

/// The most policies that are named per outage mode.
const NAMES_MAX: usize = 6;

/// Every outage mode, and what it does.
const MODES: [(&str, &str); 3] =
    [("open", "admits"), ("closed", "refuses"), ("local", "grants the share of this process")];

/// What a client needs besides an address, and what it finds there.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    token: bool,
    /// The certificate of the server, and whether clients need one of their own.
    tls: Option<(PathBuf, bool)>,
    /// Whether the page is served.
    page: bool,
}

impl Needs {
    pub(super) fn of(config: &Config) -> Self {
        let tls = config.tls.as_ref().map(|tls| (tls.cert.clone(), tls.client_ca.is_some()));
        // A certificate is enough for a caller.
        let is_certified = tls.as_ref().is_some_and(|(_, certified)| *certified);
        let token = config.auth.guards_callers() && !is_certified;
        Self { token, tls, page: config.reaches_callers_only() }
    }
}

/// All lines; `store` is the URL of a store outside of this process.
pub(super) fn lines(
    addresses: Addresses,
    store: Option<&str>,
    policies: &Policies,
    needs: &Needs,
) -> Vec<String> {
    let Addresses { http, grpc, resp } = addresses;
    let mut lines: Vec<String> = [("HTTP", http), ("gRPC", grpc), ("RESP", resp)]
        .map(|(name, address)| match address {
            Some(address) => format!("{name} on {address}"),
            None => format!("{name} off"),
        })
        .into();
    lines.push(match store {
        Some(store) => format!("Store: {store}"),
        None => "Store: memory; limits are per process and end with it".into(),
    });
    lines.extend(modes(policies));
    lines.extend(http.filter(|_| needs.page).map(|http| format!("Page: {}", page(http, needs))));
    let command = match (http, resp) {
        (Some(http), _) => Some(curl(http, needs)),
        (None, Some(resp)) => Some(redis_cli(resp, needs)),
        (None, None) => None,
    };
    let first = if needs.token { "Try, with a token in TOLLGATE_TOKEN" } else { "Try" };
    lines.extend(command.map(|command| format!("{first}: {command}")));
    lines
}

/// The address of the page.
fn page(address: SocketAddr, needs: &Needs) -> String {
    let address = reachable(address);
    match &needs.tls {
        None => format!("http://{address}/"),
        // Another name than that of the machine may lead elsewhere: then browsers warn.
        Some((certificate, _)) => match name_in(certificate, address.ip()) {
            Some(name) => format!("https://{name}:{}/", address.port()),
            None => format!("https://{address}/"),
        },
    }
}

/// A request over HTTP. A certificate is its own authority for curl: that of this server suffices.
fn curl(address: SocketAddr, needs: &Needs) -> String {
    let address = reachable(address);
    let mut command = match &needs.tls {
        None => format!("curl http://{address}/v1/acquire"),
        Some((certificate, is_certified)) => {
            let quoted = quoted(certificate);
            let mut command = format!("curl --cacert {quoted}");
            if *is_certified {
                command.push_str(" --cert CLIENT.crt --key CLIENT.key");
            }
            let _ = match name_in(certificate, address.ip()) {
                Some(name) => write!(command, " https://{name}:{}/v1/acquire", address.port()),
                // A name that leads elsewhere, or nowhere from here.
                None => write!(command, " --connect-to ::{address} https://NAME/v1/acquire"),
            };
            command
        }
    };
    if needs.token {
        command.push_str(" -H \"authorization: Bearer $TOLLGATE_TOKEN\"");
    }
    command.push_str(" -d '{\"key\":\"user:1\"}'");
    command
}

/// A command over RESP.
fn redis_cli(address: SocketAddr, needs: &Needs) -> String {
    let address = reachable(address);
    let mut command = match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => format!("redis-cli -p {}", address.port()),
        ip => format!("redis-cli -h {ip} -p {}", address.port()),
    };
    if let Some((certificate, is_certified)) = &needs.tls {
        let _ = write!(command, " --tls --cacert {}", quoted(certificate));
        if *is_certified {
            command.push_str(" --cert CLIENT.crt --key CLIENT.key");
        }
    }
    if needs.token {
        command.push_str(" -a \"$TOLLGATE_TOKEN\"");
    }
    command.push_str(" TG.ACQUIRE default user:1");
    command
}

/// An address at which a listener is reached from this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The address, or `localhost`, if a certificate is for it.
fn name_in(certificate: &Path, ip: IpAddr) -> Option<String> {
    let certificate = CertificateDer::from_pem_file(certificate).ok()?;
    let certificate = ParsedCertificate::try_from(&certificate).ok()?;
    let is_named = |name: &ServerName<'_>| verify_server_name(&certificate, name).is_ok();
    if is_named(&ServerName::from(ip)) {
        return Some(SocketAddr::new(ip, 0).to_string().trim_end_matches(":0").to_owned());
    }
    let local = ServerName::try_from("localhost").ok()?;
    (ip.is_loopback() && is_named(&local)).then(|| "localhost".to_owned())
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The outage modes in use, with their policies: one line each.
fn modes(policies: &Policies) -> impl Iterator<Item = String> {
    MODES.into_iter().filter_map(|(mode, does)| {
        let has = |name: &str| name == mode;
        let mut names = policies
            .iter()
            .filter(|policy| policy.limits().any(|limit| has(limit.outage_mode().as_str())))
            .map(|policy| policy.name().as_str());
        let named: Vec<&str> = names.by_ref().take(NAMES_MAX).collect();
        let more = match names.count() {
            0 => String::new(),
            more => format!(" and {more} more (tollgate config show)"),
        };
        let named = named.join(", ");
        (!named.is_empty()).then(|| format!("In an outage, `{mode}` {does}: {named}{more}"))
    })
}

#[cfg(test)]
mod tests {
    use tollgate_server::Config;

    use super::*;

    fn banner(text: &str, store: Option<&str>) -> Vec<String> {
        let config = Config::of_text(&[], |_| None, Some(("t.yaml", text))).unwrap();
        let http = config.http;
        let needs = Needs::of(&config);
        lines(Addresses { http, grpc: None, resp: None }, store, &config.policies, &needs)
    }

    #[test]
    fn every_mode_is_listed_with_its_policies() {
        let text = "policies:
  a: {limit: 1 per 1s}
  b: {limit: 1 per 1s, on_outage: closed}
  c: {limit: 1 per 1s, on_outage: local}
";
        let lines = banner(text, Some("redis://there"));
        assert_eq!(lines[3], "Store: redis://there");
        assert_eq!(
            lines[4..7],
            [
                "In an outage, `open` admits: a, default",
                "In an outage, `closed` refuses: b",
                "In an outage, `local` grants the share of this process: c",
            ]
        );
        assert_eq!(banner("", None)[4], "In an outage, `open` admits: default");
    }

    #[test]
    fn the_page_is_named_where_it_is_served() {
        let page =
            |text: &str| banner(text, None).into_iter().find(|line| line.starts_with("Page"));
        let of = |text: &str| page(text).unwrap_or_default();
        assert_eq!(of(""), "Page: http://127.0.0.1:8080/");
        assert_eq!(of("http: \"[::1]:80\""), "Page: http://[::1]:80/");
        assert_eq!(
            of("http: 0.0.0.0:8080\ntokens: 0123456789abcdef"),
            "Page: http://127.0.0.1:8080/"
        );
        for none in ["http: 0.0.0.0:8080\ninsecure_public: true", "http: off"] {
            assert_eq!(page(none), None, "{none}");
        }
    }

    #[test]
    fn many_policies_make_a_short_banner() {
        let policies: String = (0..500)
            .map(|n| format!("  p{n:03}: {{limit: 1 per 1s, on_outage: closed}}\n"))
            .collect();
        let lines = banner(&format!("policies:\n{policies}"), None);
        let closed = "In an outage, `closed` refuses: p000, p001, p002, p003, p004, p005 \
                      and 494 more (tollgate config show)";
        assert_eq!(lines[5], closed);
        assert_eq!(lines.len(), 8);
    }
}

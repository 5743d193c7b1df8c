//! Who may call: tokens, certificates, and addresses that others can reach.

use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate_service::Auth;
use tollgate_service::config::ConfigError;
use tollgate_service::config::values::boolean;

use super::settings::Settings;
use super::{Setting, Tls};

/// The shortest token accepted, in bytes: shorter ones can be guessed.
const TOKEN_MIN_BYTES: usize = 16;

pub(super) fn auth_of(settings: &Settings, errors: &mut Vec<ConfigError>) -> Auth {
    for setting in [Setting::Tokens, Setting::AdminTokens] {
        let short = |token: &str| token.len() < TOKEN_MIN_BYTES;
        if list(settings.text(setting)).any(short) {
            let message = format!(
                "holds a token that can be guessed; write tokens of {TOKEN_MIN_BYTES} bytes and \
                 more, separated by commas"
            );
            errors.push(settings.error(setting, message));
        }
    }
    Auth::new(list(settings.text(Setting::Tokens)), list(settings.text(Setting::AdminTokens)))
}

/// The elements of a list that commas separate.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|element| !element.is_empty())
}

pub(super) fn tls_of(settings: &Settings, errors: &mut Vec<ConfigError>) -> Option<Tls> {
    let file = |setting| match settings.text(setting) {
        "" => None,
        path => Some(PathBuf::from(path)),
    };
    match (file(Setting::TlsCert), file(Setting::TlsKey), file(Setting::TlsClientCa)) {
        (Some(cert), Some(key), client_ca) => Some(Tls { cert, key, client_ca }),
        (None, None, None) => None,
        (None, _, _) => {
            let message = "is missing; TLS needs both tls_cert and tls_key";
            errors.push(ConfigError::new("tls_cert", message));
            None
        }
        (_, None, _) => {
            let message = "is missing; TLS needs both tls_cert and tls_key";
            errors.push(ConfigError::new("tls_key", message));
            None
        }
    }
}

/// Refuses public addresses, unless callers authenticate.
pub(super) fn guard_public(
    settings: &Settings,
    auth: &Auth,
    addresses: [Option<SocketAddr>; 3],
    errors: &mut Vec<ConfigError>,
) {
    let Some(anyway) = settings.parsed(Setting::InsecurePublic, boolean, errors) else { return };
    let guarded = auth.guards_callers() || !settings.text(Setting::TlsClientCa).is_empty();
    let listeners = [Setting::Http, Setting::Grpc, Setting::Resp];
    for (setting, address) in listeners.into_iter().zip(addresses) {
        if !anyway && !guarded && address.is_some_and(|address| !address.ip().is_loopback()) {
            let message = "others can reach this address; set tokens, or --insecure-public";
            errors.push(settings.error(setting, message));
        }
    }
}

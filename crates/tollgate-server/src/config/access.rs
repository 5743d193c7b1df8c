//! Who may call: tokens, certificates, and addresses that others can reach.

use std::net::SocketAddr;
use std::path::PathBuf;

use tollgate_service::auth::{Token, validate_tokens};
use tollgate_service::config::ConfigError;
use tollgate_service::config::values::boolean;
use tollgate_service::policy::AD_HOC_POLICY;
use tollgate_service::{Auth, Policies};

use super::settings::Settings;
use super::{Setting, Tls};

/// The tokens, whose policies are among these.
pub(super) fn auth_of(
    settings: &Settings,
    policies: Option<&Policies>,
    errors: &mut Vec<ConfigError>,
) -> Option<Auth> {
    // Names of policies that are themselves wrong are not judged.
    let exists = |name: &str| {
        name == AD_HOC_POLICY || policies.is_none_or(|policies| policies.find(name).is_ok())
    };
    let mut of = |setting: Setting| {
        let tokens = Token::list(settings.text(setting));
        let tokens = tokens.and_then(|all| validate_tokens(&all, exists).map(|()| all));
        tokens.map_err(|why| errors.push(settings.error(setting, why))).ok()
    };
    let (callers, admins) = (of(Setting::Tokens), of(Setting::AdminTokens));
    Some(Auth::of_tokens(callers?, admins?))
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

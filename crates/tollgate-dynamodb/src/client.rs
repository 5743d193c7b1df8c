//! Amazon's client, set up so that it never repeats a request: what may be repeated is decided here.

use aws_config::identity::IdentityCache;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder as Settings, StalledStreamProtectionConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use tollgate_core::{Error, Result};

use crate::config::Config;
use crate::credentials::Leased;

const APPLICATION: &str = "tollgate";

/// A client for the address of the settings. It connects when it is first asked.
///
/// # Errors
/// `config_invalid` naming `region` when there is none.
pub(crate) async fn client(config: &Config) -> Result<Client> {
    let http = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let timeouts = TimeoutConfig::builder().connect_timeout(config.connect_timeout).build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http)
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Ok(name) = AppName::new(APPLICATION) {
        loader = loader.app_name(name);
    }
    let address = &config.address;
    if let Some(region) = &address.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(endpoint) = &address.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    if let Some(profile) = &address.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(credentials) = &config.credentials {
        loader = loader.credentials_provider(credentials.clone());
    }
    let shared = loader.load().await;
    if shared.region().is_none() {
        return Err(Error::config(
            "region",
            "is missing; accepted: region=… in the address, AWS_REGION, or the region of the profile",
        ));
    }
    let mut settings = Settings::from(&shared);
    if let (None, Some(source)) = (&config.credentials, shared.credentials_provider()) {
        let leased = Leased::from(source);
        settings = settings.credentials_provider(leased).identity_cache(IdentityCache::no_cache());
    }
    Ok(Client::from_conf(settings.build()))
}

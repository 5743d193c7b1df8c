//! The client of the AWS SDK, configured so that it never repeats a request: the store decides
//! which requests may be repeated.

use std::sync::Arc;

use aws_config::identity::IdentityCache;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{AppName, BehaviorVersion, Region};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder as Settings, StalledStreamProtectionConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use tollgate_core::{BoxFuture, Error, Micros, Result, SystemClock};
use tollgate_net::refreshing_credential::RefreshingCredential;

use crate::config::Config;
use crate::credentials::BackgroundCredentials;

const APPLICATION: &str = "tollgate";

/// Creates the client at the first call, in the background and once for all callers: the region may
/// have to be read from a service of the machine, which can take longer than the deadline of one
/// caller.
pub(crate) struct LazyClient {
    config: Config,
    client: Arc<RefreshingCredential<Client>>,
}

impl LazyClient {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, client: RefreshingCredential::new(Arc::new(SystemClock::new())) }
    }

    /// # Errors
    /// `config_invalid` naming `region` when there is none, or `runtime` outside of a tokio
    /// runtime. All are marked as not sent.
    pub(crate) async fn get(&self) -> Result<Arc<Client>> {
        let create = || {
            let config = self.config.clone();
            async move { Ok((connect(&config).await?, Micros::MAX)) }
        };
        self.client.current(create).await
    }
}

/// Creates a client, which connects at the first request. Boxed: the futures of the AWS SDK are
/// nested too deeply for the compiler inside of a caller's future.
pub(crate) fn connect(config: &Config) -> BoxFuture<'_, Result<Client>> {
    Box::pin(client(config))
}

async fn client(config: &Config) -> Result<Client> {
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
            "is missing; accepted: region=… in the URL, AWS_REGION, or the region of the profile",
        ));
    }
    let mut settings = Settings::from(&shared);
    if let (None, Some(source)) = (&config.credentials, shared.credentials_provider()) {
        let credentials = BackgroundCredentials::from(source);
        settings =
            settings.credentials_provider(credentials).identity_cache(IdentityCache::no_cache());
    }
    Ok(Client::from_conf(settings.build()))
}

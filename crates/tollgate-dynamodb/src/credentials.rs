//! Credentials of a profile or role: fetched in the background and shared by all requests.
//!
//! The AWS SDK fetches them inside of the request that needs them, and stops when its caller is
//! cancelled. Where a role takes longer than the deadline of callers, no request would ever be
//! sent. Here a background task fetches them, and again before they expire. The cache of the SDK is
//! disabled.

use core::time::Duration;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_dynamodb::config::Credentials;
use tokio::time::timeout;
use tollgate_core::{Clock, Error, Micros, Result};
use tollgate_net::refreshing_credential::RefreshingCredential;

use crate::error::without_credentials;

/// Credentials without an expiry are fetched again after this time, as the AWS SDK does.
const DEFAULT_LIFETIME: Micros = 15 * 60 * 1_000_000;
/// Bounds one fetch. Several attempts of every known source fit in.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// The wall clock, by which credentials expire. A monotonic clock may be behind it after the
/// machine was suspended.
#[derive(Debug)]
struct WallClock;

impl Clock for WallClock {
    #[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
    fn now(&self) -> Micros {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
    }
}

/// A source of credentials, and the current ones.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundCredentials {
    source: SharedCredentialsProvider,
    clock: Arc<dyn Clock>,
    current: Arc<RefreshingCredential<Credentials>>,
}

impl BackgroundCredentials {
    /// Begins the first fetch. Has to be called inside of a runtime.
    pub(crate) fn from(source: SharedCredentialsProvider) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(WallClock);
        let current = RefreshingCredential::new(Arc::clone(&clock));
        let credentials = Self { source, current, clock };
        let first = credentials.clone();
        drop(tokio::spawn(async move { first.current().await.is_ok() }));
        credentials
    }

    async fn current(&self) -> Result<Arc<Credentials>> {
        let fetch = || {
            let credentials = self.clone();
            async move { credentials.fetch().await }
        };
        self.current.current(fetch).await
    }

    async fn fetch(&self) -> Result<(Credentials, Micros)> {
        let provided = timeout(FETCH_TIMEOUT, self.source.provide_credentials()).await;
        let provided = provided.unwrap_or_else(|_| {
            let fallback = self.source.fallback_on_interrupt();
            fallback.ok_or_else(|| CredentialsError::provider_timed_out(FETCH_TIMEOUT))
        });
        let found = provided.map_err(|error| without_credentials(&error))?;
        let expiry = found.expiry().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let expires = expiry.and_then(|life| Micros::try_from(life.as_micros()).ok());
        Ok((found, expires.unwrap_or_else(|| self.clock.now().saturating_add(DEFAULT_LIFETIME))))
    }
}

impl ProvideCredentials for BackgroundCredentials {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let found = self.current().await.map_err(|error| sdk_error(&error))?;
            Ok(Credentials::clone(&found))
        })
    }
}

/// An error for the AWS SDK. `RequestError::of` classifies it as before when it comes back.
fn sdk_error(error: &Error) -> CredentialsError {
    match error.is_outage() {
        true => CredentialsError::provider_error(error.to_string()),
        false => CredentialsError::not_loaded(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use core::pin::pin;
    use core::task::Poll;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use tokio::runtime::Builder;
    use tokio::sync::Semaphore;

    use super::*;

    /// Provides credentials, one set per permit.
    #[derive(Debug)]
    struct Slow {
        fetches: AtomicU64,
        permits: Semaphore,
    }

    impl ProvideCredentials for Slow {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(async {
                self.fetches.fetch_add(1, SeqCst);
                self.permits.acquire().await.unwrap().forget();
                Ok(Credentials::new("id", "s3cret", None, None, "slow"))
            })
        }
    }

    #[test]
    fn credentials_are_fetched_after_all_callers_are_cancelled() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let slow = Arc::new(Slow { fetches: 0.into(), permits: Semaphore::new(0) });
            let source: Arc<dyn ProvideCredentials> = slow.clone();
            let credentials = BackgroundCredentials::from(SharedCredentialsProvider::from(source));
            for _ in 0..3 {
                let mut call = pin!(credentials.provide_credentials());
                let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
                assert!(polled.is_pending());
                tokio::task::yield_now().await;
            }
            slow.permits.add_permits(1);
            let found = credentials.provide_credentials().await.unwrap();
            assert_eq!(found.access_key_id(), "id");
            credentials.provide_credentials().await.unwrap();
            assert_eq!(slow.fetches.load(SeqCst), 1);
            assert!(!format!("{credentials:?}").contains("s3cret"));
        });
    }

    #[test]
    fn errors_keep_their_class_through_the_sdk() {
        for error in [
            CredentialsError::not_loaded("nothing anywhere"),
            CredentialsError::invalid_configuration("a loop"),
            CredentialsError::provider_error("down"),
            CredentialsError::provider_timed_out(FETCH_TIMEOUT),
        ] {
            let first = without_credentials(&error);
            let second = without_credentials(&sdk_error(&first));
            assert_eq!(first.code(), second.code(), "{error}");
        }
    }
}

//! Credentials that somebody hands out: looked for in the background, and shared by all requests.
//!
//! Amazon's client looks for them inside of the request that needs them, and gives up with its caller, who
//! has little time: where a role takes longer than that, no request would ever be sent. Here they are a
//! lease, and looked for again before they end. Its own cache is switched off for that.

use core::time::Duration;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_sdk_dynamodb::config::Credentials;
use tokio::time::timeout;
use tollgate_core::{Clock, Error, Micros, Result};
use tollgate_net::lease::Lease;

use crate::fault::without_credentials;

/// Those that do not say when they end are looked for again after this time, as Amazon's client does.
const LIFE: Micros = 15 * 60 * 1_000_000;
/// What takes longer than that never ends: several attempts of every known source fit in.
const PATIENCE: Duration = Duration::from_secs(30);

/// By which credentials end: a clock that never steps may be behind it, after a machine has slept.
#[derive(Debug)]
struct TimeOfDay;

impl Clock for TimeOfDay {
    #[expect(clippy::disallowed_methods, reason = "no decision is made by it")]
    fn now(&self) -> Micros {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Micros::try_from(since.as_micros()).unwrap_or(Micros::MAX)
    }
}

/// What hands out credentials, and those that it has handed out last.
#[derive(Clone, Debug)]
pub(crate) struct Leased {
    source: SharedCredentialsProvider,
    clock: Arc<dyn Clock>,
    lease: Arc<Lease<Credentials>>,
}

impl Leased {
    /// Begins to look for them, inside of a runtime.
    pub(crate) fn from(source: SharedCredentialsProvider) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(TimeOfDay);
        let leased = Self { source, lease: Lease::new(Arc::clone(&clock)), clock };
        let first = leased.clone();
        drop(tokio::spawn(async move { first.current().await.is_ok() }));
        leased
    }

    async fn current(&self) -> Result<Arc<Credentials>> {
        let fetch = || {
            let leased = self.clone();
            async move { leased.fetch().await }
        };
        self.lease.current(fetch).await
    }

    async fn fetch(&self) -> Result<(Credentials, Micros)> {
        let provided = timeout(PATIENCE, self.source.provide_credentials()).await;
        let provided = provided.unwrap_or_else(|_| {
            let kept = self.source.fallback_on_interrupt();
            kept.ok_or_else(|| CredentialsError::provider_timed_out(PATIENCE))
        });
        let found = provided.map_err(|error| without_credentials(&error))?;
        let expiry = found.expiry().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let ends = expiry.and_then(|life| Micros::try_from(life.as_micros()).ok());
        Ok((found, ends.unwrap_or_else(|| self.clock.now().saturating_add(LIFE))))
    }
}

impl ProvideCredentials for Leased {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            let found = self.current().await.map_err(|error| again(&error))?;
            Ok(Credentials::clone(&found))
        })
    }
}

/// An error for Amazon's client, which comes back with the request and means the same then.
fn again(error: &Error) -> CredentialsError {
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

    /// Hands out credentials when it is told to.
    #[derive(Debug)]
    struct Slow {
        asked: AtomicU64,
        permits: Semaphore,
    }

    impl ProvideCredentials for Slow {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(async {
                self.asked.fetch_add(1, SeqCst);
                self.permits.acquire().await.unwrap().forget();
                Ok(Credentials::new("id", "s3cret", None, None, "slow"))
            })
        }
    }

    #[test]
    fn credentials_are_found_although_nobody_has_the_time_to_wait_for_them() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let slow = Arc::new(Slow { asked: 0.into(), permits: Semaphore::new(0) });
            let source: Arc<dyn ProvideCredentials> = slow.clone();
            let leased = Leased::from(SharedCredentialsProvider::from(source));
            for _ in 0..3 {
                let mut call = pin!(leased.provide_credentials());
                let polled = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
                assert!(polled.is_pending());
                tokio::task::yield_now().await;
            }
            slow.permits.add_permits(1);
            let found = leased.provide_credentials().await.unwrap();
            assert_eq!(found.access_key_id(), "id");
            leased.provide_credentials().await.unwrap();
            assert_eq!(slow.asked.load(SeqCst), 1);
            assert!(!format!("{leased:?}").contains("s3cret"));
        });
    }

    #[test]
    fn errors_mean_the_same_on_their_way_through_amazons_client() {
        for error in [
            CredentialsError::not_loaded("nothing anywhere"),
            CredentialsError::invalid_configuration("a loop"),
            CredentialsError::provider_error("down"),
            CredentialsError::provider_timed_out(PATIENCE),
        ] {
            let first = without_credentials(&error);
            let second = without_credentials(&again(&first));
            assert_eq!(first.code(), second.code(), "{error}");
        }
    }
}

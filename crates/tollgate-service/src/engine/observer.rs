//! Reports of the engine, for logs, metrics and traces of a host.

use std::fmt::Debug;

use tollgate_core::{Error, MaybeSend, MaybeSync, Name};

use super::{CheckRequest, CheckResponse, Result, SettleResponse};
use crate::policy::Policies;

/// Receives what the engine did. Called in the path of a request: it must not wait.
pub trait EngineObserver: Debug + MaybeSend + MaybeSync {
    /// A request was decided, or failed.
    fn decided(&self, request: &CheckRequest<'_>, result: &Result<CheckResponse>) {
        let _ = (request, result);
    }

    /// A batch was decided; the results are in the order of the requests.
    fn batch_decided(&self, requests: &[CheckRequest<'_>], results: &[Result<CheckResponse>]) {
        let _ = (requests, results);
    }

    /// A policy in shadow mode allowed a request that could not be decided.
    fn shadow_failed(&self, policy: &Name, error: &Error) {
        let _ = (policy, error);
    }

    /// Units of a key were given back, or were not. The key is absent if the request names none
    /// under a policy that is known.
    fn refunded(&self, of: Option<(&Name, &str)>, result: &Result<SettleResponse>) {
        let _ = (of, result);
    }

    /// The charges of a receipt were settled for final costs, or were not; as
    /// [`EngineObserver::refunded`].
    fn settled(&self, of: Option<(&Name, &str)>, result: &Result<SettleResponse>) {
        let _ = (of, result);
    }

    /// A key was reset, or was not.
    fn reset(&self, policy: &Name, key: &str, result: &Result<()>) {
        let _ = (policy, key, result);
    }

    /// Policies are replaced by others.
    fn policies_replaced(&self, before: &Policies, policies: &Policies) {
        let _ = (before, policies);
    }

    /// New policies were refused, and the old ones stay.
    fn policies_refused(&self) {}
}

/// Ignores every report.
impl EngineObserver for () {}

//! How a key stands: under each policy every limit, when it is full again, and the last denials.
//! Nothing is charged.

use hyper::body::Bytes;
use serde::Serialize;
use tollgate::{Error, Result};
use tollgate_service::api::key_and_policy;
use tollgate_service::auth::Scope;
use tollgate_service::engine::{CheckRequest, CheckResponse, Failure};

use super::json::DenialJson;
use crate::app::App;

/// The most policies of one search: each reads the store.
const POLICIES_MAX: usize = 64;

#[derive(Serialize)]
struct KeyStanding {
    now_ms: u64,
    policies: Vec<PolicyStanding>,
}

/// The key under a policy.
#[derive(Serialize)]
struct PolicyStanding {
    policy: String,
    shadow: bool,
    /// Why the store could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    limits: Vec<LimitStanding>,
    /// The last denials of the key that were recorded, the newest first.
    denials: Vec<DenialJson>,
}

#[derive(Serialize)]
struct LimitStanding {
    name: String,
    limit: u64,
    remaining: u64,
    /// When the key is full again if nothing more is spent.
    reset_at_ms: u64,
    /// How long a request of one unit has to wait; 0 if it passes now.
    retry_after_ms: Option<u64>,
}

/// Answers a body with a key, and perhaps a policy.
///
/// # Errors
/// When the body is invalid, the policy is unknown, or there are too many to read them all.
pub(crate) async fn inspect(app: &App, body: &[u8], scope: &Scope) -> Result<Bytes, Failure> {
    let (key, policy) = key_and_policy(body)?;
    let names = names(app, policy.as_deref(), scope)?;
    let mut policies = Vec::with_capacity(names.len());
    for name in names {
        policies.push(standing(app, name, &key).await?);
    }
    let standing = KeyStanding { now_ms: app.engine().now_ms_up(), policies };
    // Encoding structures of numbers and text does not fail.
    Ok(serde_json::to_vec(&standing).unwrap_or_default().into())
}

/// The policy that is named, or all in force that the client may use.
fn names(app: &App, policy: Option<&str>, scope: &Scope) -> Result<Vec<String>> {
    let policies = app.engine().policies();
    match policy {
        Some(name) => {
            scope.permit(name)?;
            Ok(vec![policies.find(name)?.name().to_string()])
        }
        None => {
            let names = policies.iter().map(|policy| policy.name().to_string());
            let names: Vec<_> = names.filter(|name| scope.has(name)).collect();
            if names.len() <= POLICIES_MAX {
                return Ok(names);
            }
            let message = format!(
                "is missing; accepted: the name of a policy, because there are {} of them",
                names.len()
            );
            Err(Error::invalid("policy", message))
        }
    }
}

async fn standing(app: &App, policy: String, key: &str) -> Result<PolicyStanding, Failure> {
    let peeked = app.engine().peek(CheckRequest::new(&policy, key)).await;
    let redaction = &app.telemetry.redaction.load();
    let denials = app.telemetry.activity.of(&policy, |activity| {
        let of_key = activity.denials().filter(|denial| *denial.key == *key);
        of_key.map(|denial| DenialJson::new(denial, redaction)).collect()
    });
    let is_shadow = |name| app.engine().policies().find(name).is_ok_and(|it| it.is_shadow());
    let shadow = is_shadow(&policy);
    match peeked {
        Ok(response) => {
            let limits = limits(&response);
            Ok(PolicyStanding { policy, shadow, problem: None, limits, denials })
        }
        // What is wrong with the key is wrong under every policy.
        Err(failure) if failure.error.code() == tollgate::Code::InvalidRequest => Err(failure),
        Err(failure) => {
            let problem = Some(failure.error.message().to_owned());
            Ok(PolicyStanding { policy, shadow, problem, limits: Vec::new(), denials })
        }
    }
}

fn limits(response: &CheckResponse) -> Vec<LimitStanding> {
    let standing =
        |(limit, own): (&tollgate_service::policy::LimitName, &tollgate::Decision)| LimitStanding {
            name: limit.name.to_string(),
            limit: own.limit,
            remaining: own.remaining,
            reset_at_ms: own.reset_at_ms,
            retry_after_ms: own.retry_after_ms,
        };
    response.standings().map(standing).collect()
}

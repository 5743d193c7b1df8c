//! `ratelimit.v1.RateLimiter`: for callers of an earlier service. The policy is `default`, a
//! request id is required, and a cost above the limit is an invalid argument.

use std::sync::Arc;

use tollgate::{Cost, Error, Verdict};
use tollgate_proto::ratelimit_v1 as pb;
use tollgate_proto::ratelimit_v1::rate_limiter_server::RateLimiter;
use tollgate_service::engine::{CheckRequest, CheckResponse, Failure, RequestedCharge};
use tollgate_service::policy::DEFAULT_POLICY;
use tonic::{Request, Response, Status};

use super::status;
use super::tollgate::rights_of;
use crate::app::App;

/// The longest key that the earlier service accepted, in bytes.
const KEY_MAX_BYTES: usize = 256;

/// The interface over the engine.
#[derive(Debug)]
pub(super) struct Compatible(pub(super) Arc<App>);

#[tonic::async_trait]
impl RateLimiter for Compatible {
    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<pb::AcquireResponse>, Status> {
        let (rights, request) = (rights_of(&request), request.into_inner());
        let respond = async {
            let check = check(&request)?.within(&rights.policies);
            response(&self.0.engine().acquire(check).await?)
        };
        let response = respond.await;
        response.map(Response::new).map_err(|failure| status::of(&failure))
    }
}

fn check(request: &pb::AcquireRequest) -> Result<CheckRequest<'_>, Error> {
    let key = request.logical_key.as_str();
    if key.is_empty() || key.len() > KEY_MAX_BYTES {
        let accepted = format!("has {} bytes; accepted: 1 to {KEY_MAX_BYTES}", key.len());
        return Err(Error::invalid("logical_key", accepted));
    }
    if !is_uuid(&request.request_id) {
        return Err(Error::invalid("request_id", "is no UUID; accepted: 8-4-4-4-12 hex digits"));
    }
    let cost = Cost::new(request.cost.into())?;
    let charge = RequestedCharge::new(DEFAULT_POLICY, key).cost(cost);
    let check = CheckRequest::one(charge).request_id(Some(&request.request_id));
    // Its response has no field for a delay.
    Ok(check.carries_delay(false))
}

fn response(response: &CheckResponse) -> Result<pb::AcquireResponse, Failure> {
    let decision = &response.decision;
    let verdict = match decision.verdict {
        Verdict::Allowed => pb::Verdict::Allowed,
        Verdict::Denied => pb::Verdict::Denied,
        Verdict::Never => {
            let limit = decision.limit;
            let accepted = format!("can never be granted; accepted: 1 to {limit}");
            return Err(Error::invalid("cost", accepted).into());
        }
    };
    let wait_ms = decision.retry_after_ms.unwrap_or(0);
    Ok(pb::AcquireResponse {
        verdict: verdict.into(),
        // Whole units, at most 2^48: exact in a double.
        remaining: exact_double(decision.remaining),
        retry_after: Some(prost_types::Duration {
            seconds: i64::try_from(wait_ms / 1_000).unwrap_or(i64::MAX),
            nanos: i32::try_from(wait_ms % 1_000 * 1_000_000).unwrap_or(0),
        }),
    })
}

#[expect(clippy::cast_precision_loss, reason = "units are at most 2^48")]
const fn exact_double(units: u64) -> f64 {
    units as f64
}

fn is_uuid(text: &str) -> bool {
    let hyphens = [8, 13, 18, 23];
    let fits = |(index, byte): (usize, u8)| {
        if hyphens.contains(&index) { byte == b'-' } else { byte.is_ascii_hexdigit() }
    };
    text.len() == 36 && text.bytes().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::is_uuid;

    #[test]
    fn only_uuids_are_uuids() {
        assert!(is_uuid("6f1c9a52-0d5e-4c7e-9b1a-2f3c4d5e6f70"));
        for wrong in
            ["", "6f1c9a520d5e4c7e9b1a2f3c4d5e6f70", "6f1c9a52-0d5e-4c7e-9b1a-2f3c4d5e6f7g"]
        {
            assert!(!is_uuid(wrong), "{wrong}");
        }
    }
}

//! The endpoints of the API: paths, methods and required roles.

use http::Method;

use crate::auth::Role;

/// An endpoint of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /v1/acquire`: charges a key.
    Acquire,
    /// `POST /v1/acquire_many`: charges several keys independently.
    AcquireMany,
    /// `POST /v1/peek`: the decision, without a charge.
    Peek,
    /// `POST /v1/forecast`: what a key can spend, and when more.
    Forecast,
    /// `POST /v1/limits`: the limits of a key.
    Limits,
    /// `POST /v1/refund`: gives units back.
    Refund,
    /// `POST /v1/reset`: forgets what a key has spent.
    Reset,
    /// `GET` or `POST /v1/gate`: a decision as a status, for proxies.
    Gate,
    /// `GET /openapi.json`: the description of the API.
    OpenApi,
}

impl Endpoint {
    /// The endpoint at a path.
    #[must_use]
    pub fn at(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/acquire" => Self::Acquire,
            "/v1/acquire_many" => Self::AcquireMany,
            "/v1/peek" => Self::Peek,
            "/v1/forecast" => Self::Forecast,
            "/v1/limits" => Self::Limits,
            "/v1/refund" => Self::Refund,
            "/v1/reset" => Self::Reset,
            "/v1/gate" => Self::Gate,
            "/openapi.json" => Self::OpenApi,
            _ => return None,
        })
    }

    /// The methods that it accepts, as `Allow` states them.
    #[must_use]
    pub const fn methods(self) -> &'static str {
        match self {
            Self::Gate => "GET,HEAD,POST",
            Self::OpenApi => "GET,HEAD",
            Self::Acquire
            | Self::AcquireMany
            | Self::Peek
            | Self::Forecast
            | Self::Limits
            | Self::Refund
            | Self::Reset => "POST",
        }
    }

    /// Whether it accepts a method.
    #[must_use]
    pub fn accepts(self, method: &Method) -> bool {
        self.methods().split(',').any(|accepted| accepted == method.as_str())
    }

    /// Whether it reads a body.
    #[must_use]
    pub const fn reads_body(self) -> bool {
        !matches!(self, Self::Gate | Self::OpenApi)
    }

    /// The role that a client needs, if any. Every endpoint is named, so that a new one cannot get
    /// a role by omission.
    #[must_use]
    pub const fn role(self) -> Option<Role> {
        match self {
            Self::OpenApi => None,
            Self::Reset => Some(Role::Admin),
            Self::Acquire
            | Self::AcquireMany
            | Self::Peek
            | Self::Forecast
            | Self::Limits
            | Self::Refund
            | Self::Gate => Some(Role::Caller),
        }
    }
}

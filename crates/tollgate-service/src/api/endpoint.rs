//! The endpoints of the API: one line each, with path, methods and required role.

use http::Method;

use crate::auth::Role;

macro_rules! endpoints {
    ($($(#[$doc:meta])* $endpoint:ident, $path:literal, $methods:literal, $role:expr;)*) => {
        /// An endpoint of the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Endpoint {
            $($(#[$doc])* $endpoint,)*
        }

        impl Endpoint {
            /// All of them.
            pub const ALL: [Self; [$($path),*].len()] = [$(Self::$endpoint),*];

            /// The endpoint at a path.
            #[must_use]
            pub fn at(path: &str) -> Option<Self> {
                match path { $($path => Some(Self::$endpoint),)* _ => None }
            }

            /// The path.
            #[must_use]
            pub const fn path(self) -> &'static str {
                match self { $(Self::$endpoint => $path,)* }
            }

            /// The methods that it accepts, as `Allow` states them.
            #[must_use]
            pub const fn methods(self) -> &'static str {
                match self { $(Self::$endpoint => $methods,)* }
            }

            /// The role that a client needs, if any.
            #[must_use]
            pub const fn role(self) -> Option<Role> {
                match self { $(Self::$endpoint => $role,)* }
            }
        }
    };
}

endpoints! {
    /// Charges a key.
    Acquire, "/v1/acquire", "POST", Some(Role::Caller);
    /// Charges several keys independently.
    AcquireMany, "/v1/acquire_many", "POST", Some(Role::Caller);
    /// The decision, without a charge.
    Peek, "/v1/peek", "POST", Some(Role::Caller);
    /// What a key can spend, and when more.
    Forecast, "/v1/forecast", "POST", Some(Role::Caller);
    /// The limits of a key.
    Limits, "/v1/limits", "POST", Some(Role::Caller);
    /// Gives units back.
    Refund, "/v1/refund", "POST", Some(Role::Caller);
    /// Sets the final costs of charges.
    Settle, "/v1/settle", "POST", Some(Role::Caller);
    /// Forgets what a key has spent.
    Reset, "/v1/reset", "POST", Some(Role::Admin);
    /// A decision as a status, for proxies.
    Gate, "/v1/gate", "GET,HEAD,POST", Some(Role::Caller);
    /// The policies in force.
    Policies, "/v1/policies", "GET,HEAD", Some(Role::Caller);
    /// The description of the API.
    OpenApi, "/openapi.json", "GET,HEAD", None;
}

impl Endpoint {
    /// Whether it accepts a method.
    #[must_use]
    pub fn accepts(self, method: &Method) -> bool {
        self.methods().split(',').any(|accepted| accepted == method.as_str())
    }

    /// Whether its requests are timed and traced: those that ask the store about a key for a
    /// caller.
    #[must_use]
    pub const fn is_timed(self) -> bool {
        match self {
            Self::Acquire | Self::AcquireMany | Self::Peek | Self::Forecast => true,
            Self::Refund | Self::Settle | Self::Gate => true,
            Self::Limits | Self::Reset | Self::Policies | Self::OpenApi => false,
        }
    }

    /// Whether it reads a body: an endpoint that accepts `GET` has its input in the query.
    #[must_use]
    pub fn reads_body(self) -> bool {
        !self.accepts(&Method::GET)
    }
}

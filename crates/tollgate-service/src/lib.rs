//! Policies, the engine and the HTTP API of Tollgate, without sockets, files or a runtime.
//!
//! A host brings a [`Limiter`](tollgate_core::Limiter) over an erased store and the bytes of a
//! request. This crate does the rest: it reads policies from YAML, finds the limits of a key,
//! decides, and encodes the response. `tollgate-server` is such a host; a Worker on
//! `wasm32-unknown-unknown` can be another one, with the same policies, tokens and API.
//!
//! ```
//! use http::Request;
//! use tollgate_core::Limiter;
//! use tollgate_core::store::{BoxStore, Memory};
//! use tollgate_service::{Api, Auth, Engine, policies_from_yaml};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policies = policies_from_yaml("policies: {api: {limit: 100 per 1m}}")?;
//! let limiter = Limiter::new(BoxStore::new(Memory::new()));
//! let api = Api::new(Engine::new(limiter, policies), Auth::default());
//!
//! let request = Request::post("/v1/acquire").body(r#"{"policy":"api","key":"ada"}"#)?;
//! let response = api.handle(&request).await;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # Layout
//! - [`policy`]: named sets of limits, and the charges of a key under one.
//! - [`engine`]: a request in, a decision out; the same for every protocol.
//! - [`api`]: the HTTP API: routes, decoding, encoding, the OpenAPI document.
//! - [`receipt`]: proofs of charges, as callers hold them.
//! - [`auth`]: tokens of callers and administrators, the policies that they are for, and requests
//!   of foreign pages.
//! - [`config`]: YAML with line numbers, and the policies in it.

pub mod api;
pub mod auth;
pub mod config;
pub mod engine;
pub mod policy;
pub mod receipt;

pub use api::Api;
pub use auth::Auth;
pub use config::policies_from_yaml;
pub use engine::Engine;
pub use policy::Policies;

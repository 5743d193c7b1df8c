//! A client of the API: a third-party one.

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use crate::Running;

/// Sends requests to a server.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
    token: Option<&'static str>,
}

impl Client {
    /// A client of a server.
    #[must_use]
    pub fn of(server: &impl Running) -> Self {
        Self { url: server.url(), token: None }
    }

    /// The same client with a token.
    #[must_use]
    pub fn with_token(&self, token: &'static str) -> Self {
        Self { url: self.url.clone(), token: Some(token) }
    }

    /// The address of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The response to a GET request.
    pub async fn get(&self, path: &str) -> Response {
        self.send(reqwest::Client::new().get(self.url(path))).await
    }

    /// Posts JSON; the status and the body.
    pub async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let request = reqwest::Client::new().post(self.url(path));
        let response = self.send(request.body(body.to_owned())).await;
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }

    async fn send(&self, request: RequestBuilder) -> Response {
        let request = match self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().await.unwrap()
    }
}

//! A client of the API: a third-party one, with a connection per request.

use reqwest::Response;
use serde_json::Value;

use crate::Running;

/// Sends requests to a server.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
}

impl Client {
    /// A client of a server.
    #[must_use]
    pub fn of(server: &impl Running) -> Self {
        Self { url: server.url() }
    }

    /// The address of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The response to a GET request.
    pub async fn get(&self, path: &str) -> Response {
        reqwest::get(self.url(path)).await.unwrap()
    }

    /// Posts JSON; the status and the body.
    pub async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let client = reqwest::Client::new();
        let response = client.post(self.url(path)).body(body.to_owned()).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap())
    }
}

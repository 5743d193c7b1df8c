//! The tests of the HTTP API that every host passes, on the ready Worker over each exact store.
//! Cases that move the clock need a host with a clock of its own: a Worker has that of the runtime.

use serde_json::Value;
use tollgate_api_tests::{Client, Running, SLOW, Setup, Target};
use tollgate_test_servers::workerd::{WorkerSpec, Workerd, build};

mod durable_object {
    tollgate_api_tests::api_tests!(super::Ready { store: "durable_object" });
}

mod d1 {
    tollgate_api_tests::api_tests!(super::Ready { store: "d1" });
}

/// The Worker of `deploy/cloudflare`, over a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) store: &'static str,
}

/// One that runs.
#[derive(Debug)]
pub(crate) struct Started(Workerd);

impl Running for Started {
    fn url(&self) -> String {
        self.0.url()
    }

    async fn end(self) {
        tokio::task::spawn_blocking(|| drop(self)).await.unwrap();
    }
}

impl Target for Ready {
    type Server = Started;

    const HAS_METRICS: bool = false;

    async fn start(&self, setup: Setup<'_>) -> Started {
        let spec = self.spec(setup);
        tokio::task::spawn_blocking(move || Started(Workerd::start(&spec()).unwrap()))
            .await
            .unwrap()
    }
}

impl Ready {
    /// With another value of a variable, or without it.
    pub(crate) async fn start_with(
        self,
        setup: Setup<'_>,
        (name, value): (&'static str, Option<Value>),
    ) -> Started {
        let spec = self.spec(setup);
        let start = move || {
            let mut spec = spec();
            spec.vars.retain(|(known, _)| *known != name);
            spec.vars.extend(value.map(|value| (name, value)));
            Started(Workerd::start(&spec).unwrap())
        };
        tokio::task::spawn_blocking(start).await.unwrap()
    }

    /// Building takes long: it is left to a thread that may wait.
    fn spec(self, setup: Setup<'_>) -> impl FnOnce() -> WorkerSpec + Send + use<> {
        let vars: Vec<(&'static str, Value)> = vec![
            ("TOLLGATE_POLICIES", setup.policies.into()),
            ("TOLLGATE_STORE", self.store.into()),
            ("TOLLGATE_TOKENS", setup.tokens.join(",").into()),
            ("TOLLGATE_ADMIN_TOKENS", setup.admin_tokens.join(",").into()),
            ("TOLLGATE_HASH_SECRET", setup.hash_secret.into()),
            ("TOLLGATE_RECEIPT_SECRET", setup.receipt_secret.into()),
            ("TOLLGATE_INSECURE_PUBLIC", setup.tokens.is_empty().into()),
            // The machines of tests are slow, and all clients use one key.
            ("TOLLGATE_DEADLINE", "60s".into()),
        ];
        move || WorkerSpec {
            folder: build("tollgate-cloudflare").unwrap(),
            durable_objects: vec![("TOLLGATE_LIMITS", "TollgateLimits", true)],
            d1: vec!["TOLLGATE_DB"],
            kv: vec!["TOLLGATE_KV"],
            vars,
            ..WorkerSpec::default()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_worker_without_tokens_refuses_all_requests() {
    let setup = Setup { admin_tokens: &["an-administrator-1"], ..Setup::of("policies: {}") };
    let mut spec = Ready { store: "durable_object" }.spec(setup)();
    spec.vars.retain(|(name, _)| *name != "TOLLGATE_INSECURE_PUBLIC");
    let worker = tokio::task::spawn_blocking(move || Workerd::start(&spec).unwrap()).await.unwrap();
    let (status, body) = crate::support::get(&format!("{}/v1/acquire", worker.url())).await;
    assert_eq!(status, 501, "{body}");
    assert!(body.contains("TOLLGATE_TOKENS"), "{body}");
    Started(worker).end().await;
}

/// A number that was not read would be the default, unseen.
#[tokio::test(flavor = "multi_thread")]
async fn variables_may_be_numbers_and_lists() {
    let ready = Ready { store: "durable_object" };
    let server = ready.start_with(Setup::of(SLOW), ("TOLLGATE_SHARDS", Some(0.into()))).await;
    let (status, reply) = Client::of(&server).post("/v1/acquire", r#"{"key":"k"}"#).await;
    assert_eq!((status, &reply["field"]), (501, &"shards".into()), "{reply}");
    server.end().await;

    let tokens = vec!["the-first-token-1", "the-second-token"];
    let setup = Setup { tokens: &["replaced"], ..Setup::of(SLOW) };
    let server = ready.start_with(setup, ("TOLLGATE_TOKENS", Some(tokens.clone().into()))).await;
    let client = Client::of(&server);
    assert_eq!(client.post("/v1/acquire", r#"{"key":"k"}"#).await.0, 401);
    for token in tokens {
        let (status, reply) = client.with_token(token).post("/v1/acquire", r#"{"key":"k"}"#).await;
        assert_eq!(status, 200, "{reply}");
    }
    server.end().await;
}

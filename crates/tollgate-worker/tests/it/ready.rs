//! The tests of the HTTP API that every host passes, on the ready Worker over each exact store.
//! Cases that move the clock need a host with a clock of its own: a Worker has that of the runtime.

use tollgate_api_tests::{Running, Setup, Target};
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
    pub(crate) async fn start_with_default_deadline(self, setup: Setup<'_>) -> Started {
        let spec = self.spec(setup);
        let start = move || {
            let mut spec = spec();
            spec.vars.retain(|(name, _)| *name != "TOLLGATE_DEADLINE");
            Started(Workerd::start(&spec).unwrap())
        };
        tokio::task::spawn_blocking(start).await.unwrap()
    }

    /// Building takes long: it is left to a thread that may wait.
    fn spec(self, setup: Setup<'_>) -> impl FnOnce() -> WorkerSpec + Send + use<> {
        let is_public = if setup.tokens.is_empty() { "true" } else { "false" };
        let vars = vec![
            ("TOLLGATE_POLICIES", setup.policies.to_owned()),
            ("TOLLGATE_STORE", self.store.to_owned()),
            ("TOLLGATE_TOKENS", setup.tokens.join(",")),
            ("TOLLGATE_ADMIN_TOKENS", setup.admin_tokens.join(",")),
            ("TOLLGATE_HASH_SECRET", setup.hash_secret.to_owned()),
            ("TOLLGATE_RECEIPT_SECRET", setup.receipt_secret.to_owned()),
            ("TOLLGATE_INSECURE_PUBLIC", is_public.to_owned()),
            // The machines of tests are slow, and all clients use one key.
            ("TOLLGATE_DEADLINE", "60s".to_owned()),
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

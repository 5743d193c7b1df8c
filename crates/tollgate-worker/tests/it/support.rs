//! The test Worker, shared by the tests of this process, and small clients.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use reqwest::Client;
use tollgate_test_servers::UpstashShim;
use tollgate_test_servers::shared::redis;
use tollgate_test_servers::workerd::{WorkerSpec, Workerd, build};

/// How long an answer may take on a slow machine that waits for nothing.
const ANSWERED: Duration = Duration::from_secs(120);

/// The package in `tests/worker`, over every store.
#[derive(Debug)]
pub(crate) struct TestWorker {
    worker: Workerd,
    /// Kept for as long as the Worker runs.
    _upstash: UpstashShim,
}

impl TestWorker {
    pub(crate) fn start() -> Self {
        Self::start_as(false)
    }

    /// With the Durable Objects in an instance of their own.
    pub(crate) fn start_with_objects_apart() -> Self {
        Self::start_as(true)
    }

    fn start_as(objects_apart: bool) -> Self {
        let upstash = UpstashShim::to(redis(), "token-of-the-shim").unwrap();
        let spec = WorkerSpec {
            folder: build("tollgate-worker-tests").unwrap(),
            durable_objects: vec![
                ("SQLITE", "SqliteLimits", true),
                ("KEY_VALUE", "KeyValueLimits", false),
                ("INSIDE_SQLITE", "InsideSqlite", true),
                ("INSIDE_KEY_VALUE", "InsideKeyValue", false),
                ("RECLAIMED_SQLITE", "ReclaimedSqlite", true),
                ("RECLAIMED_KEY_VALUE", "ReclaimedKeyValue", false),
                ("FRAGILE", "Fragile", true),
            ],
            objects_apart,
            // The module by which the Worker evicts objects.
            flags: vec!["unsafe_module"],
            d1: vec!["TOLLGATE_DB"],
            kv: vec!["KV"],
            vars: vec![
                ("UPSTASH_URL", upstash.url().into()),
                ("UPSTASH_TOKEN", upstash.token().into()),
            ],
        };
        Self { worker: Workerd::start(&spec).unwrap(), _upstash: upstash }
    }

    /// The one of this process.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<TestWorker> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// A prefix that no other test uses.
    pub(crate) fn prefix(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("t{}-{}", process::id(), NEXT.fetch_add(1, Relaxed))
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        block_on(get(&format!("{}{path}", self.worker.url())))
    }

    /// The answers to requests that are sent at once. Each of them is answered.
    pub(crate) fn get_at_once(&self, paths: &[String]) -> Vec<(u16, String)> {
        let urls = paths.iter().map(|path| format!("{}{path}", self.worker.url()));
        let client = Client::builder().timeout(ANSWERED).build().unwrap();
        block_on(async {
            let sent = urls.map(|url| tokio::spawn(get_by(client.clone(), url)));
            let mut answers = Vec::new();
            for one in sent.collect::<Vec<_>>() {
                answers.push(one.await.unwrap());
            }
            answers
        })
    }

    /// Sends a request and resets its connection.
    pub(crate) fn send_and_disconnect(&self, path: &str) {
        let mut connection = TcpStream::connect(self.worker.addr()).unwrap();
        write!(connection, "GET {path} HTTP/1.1\r\nhost: worker\r\n\r\n").unwrap();
        connection.shutdown(Shutdown::Both).unwrap();
    }

    pub(crate) fn restart(&self) {
        self.worker.restart().unwrap();
    }

    pub(crate) fn log(&self) -> String {
        self.worker.log()
    }
}

/// The status and the body of a GET request. A clause may take long: there is no timeout.
pub(crate) async fn get(url: &str) -> (u16, String) {
    get_by(Client::new(), url.to_owned()).await
}

async fn get_by(client: Client, url: String) -> (u16, String) {
    let response = client.get(url).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

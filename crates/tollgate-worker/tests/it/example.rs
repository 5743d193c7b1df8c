//! The Worker of `examples/worker`: ten requests per minute for each client address.

use reqwest::Client;
use tollgate_test_servers::workerd::{WorkerSpec, Workerd, build};

use crate::support::block_on;

#[test]
fn the_example_limits_its_route_for_each_client() {
    let spec = WorkerSpec {
        folder: build("tollgate-example-worker").unwrap(),
        durable_objects: vec![("LIMITS", "Limits", true)],
        ..WorkerSpec::default()
    };
    let worker = Workerd::start(&spec).unwrap();
    block_on(async {
        let client = Client::new();
        let request = |address| client.get(worker.url()).header("cf-connecting-ip", address);
        for left in (0..10).rev() {
            let response = request("192.0.2.7").send().await.unwrap();
            assert_eq!(response.status(), 200);
            let field = response.headers().get("ratelimit").unwrap().to_str().unwrap().to_owned();
            assert!(field.starts_with(&format!("\"hello\";r={left};t=")), "{field}");
            assert_eq!(response.headers().get("ratelimit-policy").unwrap(), "\"hello\";q=10;w=60");
            assert_eq!(response.text().await.unwrap(), "hello\n");
        }
        let denied = request("192.0.2.7").send().await.unwrap();
        assert_eq!(denied.status(), 429);
        assert_eq!(denied.headers().get("content-type").unwrap(), "application/problem+json");
        assert!(denied.headers().contains_key("retry-after"));
        assert!(denied.text().await.unwrap().contains("quota-exceeded"));
        assert_eq!(request("192.0.2.8").send().await.unwrap().status(), 200);
    });
}

//! A Worker that counts in a Durable Object, and panics on request.
#![expect(clippy::panic, reason = "on request")]
#![expect(missing_docs, reason = "the macro documents nothing that it makes")]

use worker::{
    Context, DurableObject, Env, Request, Response, Result, State, durable_object, event,
};

/// `/count` adds one to a count that the object `counter` keeps, and returns it. `/panic` panics in
/// the Worker, `/panic-in-object` in the object. `/text` returns the binding `TEXT`.
#[event(fetch)]
async fn fetch(request: Request, env: Env, _context: Context) -> Result<Response> {
    match request.path().as_str() {
        "/text" => Response::ok(env.var("TEXT")?.to_string()),
        "/panic" => panic!("on request"),
        "/count" | "/panic-in-object" => {
            let object = env.durable_object("COUNTER")?.id_from_name("counter")?.get_stub()?;
            object.fetch_with_request(request).await
        }
        _ => Response::error("no such path", 404),
    }
}

/// A count.
#[durable_object]
#[derive(Debug)]
pub struct Counter {
    state: State,
}

impl DurableObject for Counter {
    fn new(state: State, _env: Env) -> Self {
        Self { state }
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        assert_eq!(request.path(), "/count", "on request");
        let storage = self.state.storage();
        let count = storage.get::<u64>("count").await?.unwrap_or_default() + 1;
        storage.put("count", count).await?;
        Response::ok(count.to_string())
    }
}

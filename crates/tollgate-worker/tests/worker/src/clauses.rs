//! Clauses by their names.

use tollgate_core::store::Store;
use tollgate_testkit::conformance::{self, Options, Suite};
use worker::{Response, Result};

/// Runs a clause with names of its own; panics when the store breaks it.
pub(crate) async fn run<S: Store>(
    store: &S,
    options: Options,
    (clause, prefix): (&str, &str),
) -> Result<Response> {
    let suite = Suite::with_prefix(store, options, prefix);
    macro_rules! run {
        ($($name:ident)*) => {
            match clause {
                $(stringify!($name) => conformance::$name(&suite).await,)*
                _ => return Response::error("no such clause", 404),
            }
        };
    }
    tollgate_testkit::each_clause! { [run] }
    Response::ok("passed")
}

//! `tollgate migrate`: creates or migrates the tables of a store.
#![expect(clippy::print_stdout, reason = "it prints its result")]

use tollgate_server::store;

use super::Failed;

pub(crate) fn run(address: &str) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if runtime.block_on(store::migrate(address))? {
        println!("The tables are up to date.");
    } else {
        println!("This store needs no tables.");
    }
    Ok(())
}

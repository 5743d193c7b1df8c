//! `tollgate migrate`: what a store needs before it is used.
#![expect(clippy::print_stdout, reason = "it tells what it did")]

use tollgate_server::store;

use super::Failed;

pub(crate) fn run(address: &str) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if runtime.block_on(store::migrate(address))? {
        println!("The tables are as this version needs them.");
    } else {
        println!("This store needs no tables.");
    }
    Ok(())
}

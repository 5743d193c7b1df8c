//! Through PgBouncer in transaction mode: every transaction may run on another connection.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Command;

use tollgate_core::store::Store;
use tollgate_postgres::Postgres;
use tollgate_test_servers::shared::postgres;
use tollgate_test_servers::{
    Error, PgVersion, Resources, Result, Server, ServerSpec, program, server_command,
};
use tollgate_testkit::conformance::{self, Options};

use crate::support::{block_on, config};

/// A pooler in front of a server: fewer connections than clients, shared by all of them.
#[derive(Debug)]
struct PgBouncer {
    server: u16,
}

/// It refuses root, like the server.
const UNPRIVILEGED: u32 = 65_534;

impl ServerSpec for PgBouncer {
    fn name(&self) -> &'static str {
        "pgbouncer"
    }

    fn prepare(&self, resources: &Resources) -> Result<()> {
        resources.write("users", "\"postgres\" \"\"\n")?;
        let settings = format!(
            "[databases]\npostgres = host=127.0.0.1 port={} dbname=postgres\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir =\nauth_type = trust\n\
             auth_file = users\npool_mode = transaction\ndefault_pool_size = 2\n\
             server_round_robin = 1\nmax_prepared_statements = 0\n",
            self.server,
            resources.port()
        );
        let old = settings.replace("max_prepared_statements = 0\n", "");
        resources.write(
            "pgbouncer.ini",
            if supports_prepared_statements()? { &settings } else { &old },
        )?;
        Ok(())
    }

    fn command(&self, resources: &Resources) -> Result<Command> {
        let mut command = server_command(program("pgbouncer", "pgbouncer")?)?;
        command.arg(resources.path("pgbouncer.ini"));
        if fs::metadata("/proc/self").map(|me| std::os::unix::fs::MetadataExt::uid(&me))? == 0 {
            chown(resources.folder(), Some(UNPRIVILEGED), Some(UNPRIVILEGED))?;
            command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
        }
        Ok(command)
    }

    fn probe(&self, resources: &Resources) -> Result<()> {
        let mut psql = postgres(PgVersion::V15).psql()?;
        let url = format!("postgres://postgres@{}/postgres", resources.addr());
        let asked = psql.arg(url).args(["-c", "SELECT 1"]).output()?;
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        if asked.status.success() { Ok(()) } else { Err(Error::new(said)) }
    }
}

/// Releases from 1.21 on can rewrite named statements: the store must work where none does.
fn supports_prepared_statements() -> Result<bool> {
    let asked = Command::new(program("pgbouncer", "pgbouncer")?).arg("-V").output()?;
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let version = said.split_whitespace().nth(1).unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
    Ok((numbers.next(), numbers.next()) >= (Some(1), Some(21)))
}

#[test]
fn the_suite_passes_through_a_pooler_in_transaction_mode() {
    let pooler = Server::start(PgBouncer { server: postgres(PgVersion::V15).port() }).unwrap();
    let url = format!("postgres://postgres@{}/postgres", pooler.addr());
    block_on(async {
        let store = Postgres::connect(config(&url).max_request_ids(120).accepts_readings());
        let store = store.await.unwrap();
        let options = Options { injects_time: Some(true), records_max: Some(120) };
        let clauses = conformance::run(&store, options).await;
        assert!(clauses.len() > 20, "{clauses:?}");
        assert!(store.sweep().await.unwrap() > 0, "the suite's instants are long past");
        store.close().await;
    });
}

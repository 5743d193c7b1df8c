//! The PostgreSQL store beside what else one can do with the same server: decisions per second and
//! how long callers wait, on many keys and on one.
//!
//! All contenders run in one process against one server with its durable settings, interleaved:
//! every round runs each of them once, in rotating order, on tables that were made for it.

mod contender;
mod ids;
mod load;
mod options;
mod rivals;
mod sweep;

use std::process::Command;

use tokio::runtime::Runtime;
use tollgate_test_servers::{PgVersion, Postgres};

use crate::Result;
use crate::report::{Markdown, machine};
use contender::Contender;
pub(crate) use load::Random;
use load::{Sample, Spread, run};
use options::Options;
pub(crate) use rivals::Rival;

/// The name of the subcommand.
pub(crate) const COMMAND: &str = "postgres";

/// Runs the subcommand.
pub(crate) fn print(words: &[String]) -> Result<()> {
    let mut options = Options::parse(words)?;
    // Ends, with its data, when it is dropped.
    let server = match &options.url {
        Some(_) => None,
        None => {
            let server = durable(options.version)?;
            options.url = Some(server.url());
            Some(server)
        }
    };
    print!("{}", machine());
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        println!("{}\n", psql(options.url(), rivals::SETTINGS)?);
        if options.ids {
            return ids::print(&options, server.as_ref().map(|server| server.pid())).await;
        }
        if options.sweeps {
            return sweep::print(&options).await;
        }
        compare(&options).await
    })
}

/// A server that loses nothing, even if the machine does: unlike the servers of tests.
pub(crate) fn durable(version: PgVersion) -> Result<Postgres> {
    let server = Postgres::builder(version).config("fsync=on").config("full_page_writes=on");
    let server = server.config("shared_buffers=1GB").config("max_wal_size=8GB");
    server.start().map_err(|error| error.to_string())
}

async fn compare(options: &Options) -> Result<()> {
    let contenders = contender::chosen(&options.contenders)?;
    let spreads = [Spread::Distinct(options.keys), Spread::Hot];
    let mut samples: Vec<Vec<Vec<Sample>>> = vec![vec![Vec::new(); contenders.len()]; 2];
    for round in 0..options.rounds {
        for turn in 0..contenders.len() {
            let index = (turn + round) % contenders.len();
            for (spread, samples) in spreads.iter().zip(&mut samples) {
                let contender = Contender::open(contenders[index], options).await?;
                let sample = run(contender, *spread, options).await?;
                eprintln!("round {round}: {:?} {spread:?}: {sample:?}", contenders[index]);
                samples[index].push(sample);
            }
        }
    }
    for (spread, samples) in spreads.iter().zip(&samples) {
        table(*spread, &contenders, samples);
    }
    Ok(())
}

fn table(spread: Spread, contenders: &[contender::Kind], samples: &[Vec<Sample>]) {
    println!("### {}\n", spread.title());
    let mut markdown = Markdown::new(&["what"]);
    for title in ["decisions/s", "p50 ms", "p95 ms", "p99 ms", "retries each", "failed"] {
        markdown.column(title);
    }
    markdown.print_head();
    for (kind, samples) in contenders.iter().zip(samples) {
        let Some(sample) = load::median(samples) else { continue };
        let ms = |micros: u32| format!("{:.1}", f64::from(micros) / 1_000.0);
        markdown.print_row(&[
            kind.title().to_owned(),
            format!("{:.0}", sample.per_second),
            ms(sample.p50),
            ms(sample.p95),
            ms(sample.p99),
            format!("{:.2}", sample.retries_each),
            sample.failed.to_string(),
        ]);
    }
    println!();
}

/// The transactions of the reference service, on tables of their own.
pub(crate) async fn reference_rival(url: &str) -> Result<Rival> {
    psql(url, "DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench")?;
    let options = Options { url: Some(url.to_owned()), ..Options::parse(&[])? };
    Rival::open(contender::Kind::Serializable, &options).await
}

/// Runs a statement with psql: set-up that is not measured.
pub(crate) fn psql(url: &str, statement: &str) -> Result<String> {
    let output = Command::new("psql")
        .args([url, "-AtXq", "-v", "ON_ERROR_STOP=1", "-c", statement])
        .output();
    let output = output.map_err(|error| format!("psql is needed: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

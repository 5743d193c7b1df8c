//! Tollgate's server and the access pattern of the reference service, on the same Redis and the
//! same PostgreSQL: unique keys and one hot key, every request with an id of its own, over gRPC.

mod service;

pub(crate) use service::{CHILD, child};

use std::net::SocketAddr;

use tollgate_test_servers::resp::Reply;
use tollgate_test_servers::{PgVersion, Postgres, Redis, Server};

use super::audit::spent;
use super::bed::Bed;
use super::grpc::Client;
use super::kinds::{BURST, Kind, Protocol, addr};
use super::table::{Figure, grouped};
use super::target::{BENCH, Target};
use super::wire::{Message, is_allowed};
use crate::Result;
use crate::closed::{self, Loop};
use crate::measure::rotation;
use crate::postgres::{Random, psql};
use crate::report::Markdown;
use service::Reference;

/// About what the published rates and medians imply: 18,510 × 0.95 ms.
const CALLERS: usize = 20;
/// Connections that they share.
const CHANNELS: usize = 2;

/// A store, and the two servers over it.
struct Field<'a> {
    bed: &'a Bed,
    name: &'static str,
    url: String,
    tollgate: Server,
    reference: Server,
}

/// A row of the table.
struct Row {
    /// The place of the field.
    field: usize,
    is_hot: bool,
    is_tollgate: bool,
    id: String,
    samples: Vec<Loop>,
}

/// Runs the selected cells.
pub(super) fn run(bed: &Bed) -> Result<Option<String>> {
    if !bed.options.wants_group("reference") {
        return Ok(None);
    }
    let redis = Redis::start().map_err(|error| error.to_string())?;
    let postgres = crate::postgres::durable(PgVersion::V15)?;
    let fields = [over_redis(bed, &redis)?, over_postgres(bed, &postgres)?];
    let mut rows = rows(&fields);
    rows.retain(|row| bed.options.wants(&row.id));
    for round in 0..bed.options.rounds {
        for place in rotation(rows.len(), round) {
            let row = &mut rows[place];
            let field = &fields[row.field];
            let sample = field.measure(row).map_err(|error| format!("{}: {error}", row.id))?;
            eprintln!("round {round}: {}: {:.0} per second", row.id, sample.per_second());
            row.samples.push(sample);
        }
    }
    Ok((!rows.is_empty()).then(|| table(&fields, &rows)))
}

fn over_redis<'a>(bed: &'a Bed, redis: &Redis) -> Result<Field<'a>> {
    // Numbers of databases keep the keys of both apart.
    let url = format!("{}/1", redis.url().trim_end_matches('/'));
    let ours = format!("'{}/0'", redis.url().trim_end_matches('/'));
    field(bed, "Redis", url, &ours)
}

fn over_postgres<'a>(bed: &'a Bed, postgres: &Postgres) -> Result<Field<'a>> {
    let url = postgres.url();
    let mark = if url.contains('?') { '&' } else { '?' };
    let ours = format!("'{url}{mark}max_request_ids=1000000000'");
    field(bed, "PostgreSQL", url, &ours)
}

fn field<'a>(bed: &'a Bed, name: &'static str, url: String, ours: &str) -> Result<Field<'a>> {
    let tollgate = Kind::tollgate(&bed.programs, ours).start()?;
    let reference = Server::start(Reference { url: url.clone() });
    let reference = reference.map_err(|error| error.to_string())?;
    Ok(Field { bed, name, url, tollgate, reference })
}

fn rows(fields: &[Field<'_>; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, field) in fields.iter().enumerate() {
        for is_hot in [false, true] {
            for is_tollgate in [true, false] {
                let keys = if is_hot { "hot" } else { "unique" };
                let who = if is_tollgate { "tollgate" } else { "pattern" };
                let id = format!("reference-{}-{keys}-{who}", field.name.to_lowercase());
                rows.push(Row { field: place, is_hot, is_tollgate, id, samples: Vec::new() });
            }
        }
    }
    rows
}

impl Field<'_> {
    fn measure(&self, row: &Row) -> Result<Loop> {
        let prefix = self.bed.prefix();
        let addr = match row.is_tollgate {
            true => addr(&self.tollgate, Protocol::Grpc),
            false => self.reference.addr(),
        };
        let done = self.bed.runtime.block_on(self.call(addr, row, &prefix))?;
        let admitted = match (row.is_hot, row.is_tollgate) {
            // Every reply was an admission; unique keys are charged once each.
            (false, _) => done.calls,
            (true, true) => self.spent(&hot(&prefix))?,
            (true, false) => self.admitted(&hot(&prefix))?,
        };
        match admitted == done.calls {
            true => Ok(done),
            false => Err(format!("{admitted} units were spent by {} calls", done.calls)),
        }
    }

    async fn call(&self, addr: SocketAddr, row: &Row, prefix: &str) -> Result<Loop> {
        let mut channels = Vec::new();
        for _ in 0..CHANNELS {
            channels.push(Client::connect(addr).await?);
        }
        let (is_hot, is_tollgate) = (row.is_hot, row.is_tollgate);
        let seed = prefix.bytes().fold(0, |seed, byte| seed * 31 + u64::from(byte));
        let caller = |caller: usize| {
            let (client, prefix) = (channels[caller % CHANNELS].clone(), prefix.to_owned());
            let mut random = Random(seed << 16 | caller as u64);
            move |call: u64| {
                let mut client = client.clone();
                let key = match is_hot {
                    true => hot(&prefix),
                    false => format!("{prefix}-{caller}-{call}"),
                };
                let id = format!("{:016x}{:016x}", random.next(), random.next());
                async move {
                    let (path, message) = match is_tollgate {
                        true => Target::Tollgate.grpc(BENCH, &key, BURST),
                        false => (service::PATH, Message::default().text(1, &key).number(2, 1)),
                    };
                    let field = if is_tollgate { 4 } else { 3 };
                    let reply = client.call(path, message.text(field, &id).framed()).await?;
                    // The pattern gives up after three conflicts.
                    match is_allowed(&reply) || !is_tollgate {
                        true => Ok(is_allowed(&reply)),
                        false => Err("a request was denied".to_owned()),
                    }
                }
            }
        };
        closed::run(CALLERS, self.bed.options.time, caller).await
    }

    fn spent(&self, key: &str) -> Result<u64> {
        let look = |_| Target::Tollgate.look(BENCH, key, "");
        let read = |reply: &Reply| Target::Tollgate.spent(reply, BURST);
        spent(addr(&self.tollgate, Protocol::Resp), 1, look, read)
    }

    /// What the pattern has written for a key.
    fn admitted(&self, key: &str) -> Result<u64> {
        if self.name != "Redis" {
            let count = format!("SELECT count(*) FROM bench.ids WHERE key = '{key}'");
            let count = psql(&self.url, &count)?;
            return count.parse().map_err(|_| format!("psql counted {count}"));
        }
        let left = self.bed.runtime.block_on(async {
            let client = redis::Client::open(self.url.as_str())?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            let look = redis::cmd("HGET").arg(format!("bucket:{key}")).arg("tokens").to_owned();
            look.query_async::<f64>(&mut connection).await
        });
        let left = left.map_err(|error: redis::RedisError| error.to_string())?;
        Ok(service::CAPACITY - left as u64)
    }
}

fn hot(prefix: &str) -> String {
    format!("{prefix}-hot")
}

fn table(fields: &[Field<'_>; 2], rows: &[Row]) -> String {
    let mut table = Markdown::new(&["store", "keys", "service, over gRPC"]);
    let columns =
        ["requests/s", "p50 ms", "p95 ms", "p99 ms", "given up", "published, without gRPC"];
    columns.into_iter().for_each(|column| table.column(column));
    let mut text = table.head();
    for row in rows {
        let name = fields[row.field].name;
        let ms = |percent| {
            let each = row.samples.iter().map(|sample| sample.millis(percent));
            format!("{:.2}", Figure::of(each).median)
        };
        let failed = row.samples.iter().map(|sample| sample.failed).sum::<u64>();
        // The document's own figures, from another machine.
        let published = match (row.is_tollgate, name, row.is_hot) {
            (true, ..) => "–",
            (false, "Redis", false) => "18,510; 0.95, 2.59, 2.87 ms",
            (false, "Redis", true) => "10,715; 0.71, 3.91, 4.11 ms",
            (false, _, false) => "3,529; 3.45, 15.47, 31.54 ms",
            (false, _, true) => "1,256; 0.68, 39.84, 40.75 ms",
        };
        text += &table.row(&[
            name.to_owned(),
            if row.is_hot { "one hot key" } else { "unique" }.to_owned(),
            if row.is_tollgate { "Tollgate" } else { "the pattern" }.to_owned(),
            Figure::of(row.samples.iter().map(Loop::per_second)).whole(),
            ms(50),
            ms(95),
            ms(99),
            grouped(failed as f64),
            published.to_owned(),
        ]);
    }
    text + "\n"
}

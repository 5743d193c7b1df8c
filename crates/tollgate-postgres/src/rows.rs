//! The values of a round as rows of the tables: what was read, and what is to be written.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};
use tollgate_core::Micros;
use tollgate_core::store::round::{ValueName, ValueWrite};

use crate::error::QueryError;
use crate::sql::{Sql, TableSql, int8};

/// The values that a statement returned, by key, and the clock of the database.
#[derive(Debug, Default)]
pub(crate) struct ReadRows {
    pub(crate) clock: Micros,
    pub(crate) values: HashMap<String, String>,
    /// The keys of rows that others have locked.
    pub(crate) locked: HashSet<String>,
}

impl ReadRows {
    /// Reads the row of a statement that aggregates keys and values.
    pub(crate) fn of(row: &Row) -> Result<Self, QueryError> {
        let keys: Option<Vec<String>> = row.try_get(0)?;
        let values: Option<Vec<String>> = row.try_get(1)?;
        let clock: i64 = row.try_get(2)?;
        let values = keys.unwrap_or_default().into_iter().zip(values.unwrap_or_default());
        let locked: Option<Vec<String>> = if row.len() > 3 { row.try_get(3)? } else { None };
        Ok(Self {
            clock: u64::try_from(clock).unwrap_or_default(),
            values: values.collect(),
            locked: locked.into_iter().flatten().collect(),
        })
    }

    /// Adds what a later statement of the same round trip returned.
    pub(crate) fn add(&mut self, later: Self) {
        self.clock = self.clock.max(later.clock);
        self.values.extend(later.values);
        self.locked.extend(later.locked);
    }
}

/// What a round writes.
#[derive(Debug, Default)]
pub(crate) struct RowWrites {
    states: TableWrites,
    records: TableWrites,
}

/// What a round writes to one table.
#[derive(Debug, Default)]
struct TableWrites {
    inserts: Columns,
    updates: Columns,
}

#[derive(Debug, Default)]
struct Columns {
    keys: Vec<String>,
    values: Vec<String>,
    expires: Vec<i64>,
}

impl RowWrites {
    /// Adds a value. `exists` tells whether its row was read and is locked.
    pub(crate) fn add(&mut self, name: ValueName<'_>, exists: bool, write: ValueWrite) {
        let table = if name.is_record { &mut self.records } else { &mut self.states };
        let columns = if exists { &mut table.updates } else { &mut table.inserts };
        columns.keys.push(without_nul(name.text).into_owned());
        columns.values.push(write.text);
        columns.expires.push(int8(write.keep_until));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.states.len() == 0 && self.records.len() == 0
    }

    /// How many request ids are written.
    pub(crate) fn request_ids(&self) -> usize {
        self.records.len()
    }

    /// Sends all statements at once. States come before request ids: see `sql` on deadlocks.
    pub(crate) async fn write(&self, client: &Client, sql: &Sql) -> Result<(), QueryError> {
        let (states, records) = tokio::join!(
            biased;
            self.states.write(client, &sql.states),
            self.records.write(client, &sql.records),
        );
        states.and(records)
    }
}

impl TableWrites {
    fn len(&self) -> usize {
        self.inserts.keys.len() + self.updates.keys.len()
    }

    async fn write(&self, client: &Client, sql: &TableSql) -> Result<(), QueryError> {
        let (inserted, updated) = tokio::join!(
            biased;
            self.inserts.write(client, &sql.insert),
            self.updates.write(client, &sql.update),
        );
        inserted.and(updated)
    }
}

impl Columns {
    async fn write(&self, client: &Client, statement: &str) -> Result<(), QueryError> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let columns: [(&(dyn ToSql + Sync), Type); 3] = [
            (&self.keys, Type::TEXT_ARRAY),
            (&self.values, Type::TEXT_ARRAY),
            (&self.expires, Type::INT8_ARRAY),
        ];
        client.execute_typed(statement, &columns).await?;
        Ok(())
    }
}

/// A text as PostgreSQL can store it: without NUL, which becomes `%00`. Names are percent-encoded
/// and never contain `%00` otherwise, so different names stay different.
pub(crate) fn without_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "%00")) } else { Cow::Borrowed(text) }
}

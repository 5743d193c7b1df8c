//! The names of the tables, quoted once so that any name is safe in a statement.

use tollgate_core::{Error, Result};

/// PostgreSQL truncates longer names.
pub(crate) const SCHEMA_MAX_BYTES: usize = 63;
/// The longest suffix of a table name is `_audit_20261231`; the rest of the 20 bytes is a reserve.
pub(crate) const TABLE_MAX_BYTES: usize = SCHEMA_MAX_BYTES - 20;

/// The quoted names of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) schema: String,
    /// The table of states: key, state, expiry.
    pub(crate) states: String,
    /// The table of request ids that were charged: name, record, expiry.
    pub(crate) records: String,
    /// The table of decisions, if there is an audit.
    pub(crate) audit: String,
    /// The table that holds the version of the schema.
    pub(crate) version: String,
    raw_schema: String,
    raw_table: String,
}

impl Names {
    /// # Errors
    /// `config_invalid` naming `schema` or `table`.
    pub(crate) fn new(schema: &str, table: &str) -> Result<Self> {
        check("schema", schema, SCHEMA_MAX_BYTES)?;
        check("table", table, TABLE_MAX_BYTES)?;
        let in_schema = |name: &str| format!("{}.{}", quoted(schema), quoted(name));
        Ok(Self {
            schema: quoted(schema),
            states: in_schema(table),
            records: in_schema(&format!("{table}_once")),
            audit: in_schema(&format!("{table}_audit")),
            version: in_schema(&format!("{table}_version")),
            raw_schema: schema.to_owned(),
            raw_table: table.to_owned(),
        })
    }

    /// The quoted name of a partition of the audit table.
    pub(crate) fn partition(&self, suffix: &str) -> String {
        format!("{}.{}", self.schema, quoted(&self.partition_name(suffix)))
    }

    /// The name of a partition as the catalogue stores it.
    pub(crate) fn partition_name(&self, suffix: &str) -> String {
        format!("{}_audit_{suffix}", self.raw_table)
    }

    /// The names of the version table and the audit table as the catalogue stores them.
    pub(crate) fn raw_tables(&self) -> [String; 2] {
        ["version", "audit"].map(|suffix| format!("{}_{suffix}", self.raw_table))
    }

    pub(crate) fn raw_schema(&self) -> &str {
        &self.raw_schema
    }

    /// The number of the advisory lock for one kind of work on these tables (FNV-1a of the names).
    pub(crate) fn lock_number(&self, work: &str) -> i64 {
        let texts = [work, "\0", &self.raw_schema, "\0", &self.raw_table];
        let bytes = texts.iter().flat_map(|text| text.bytes());
        let hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        i64::from_ne_bytes(hash.to_ne_bytes())
    }
}

fn check(field: &'static str, name: &str, max: usize) -> Result<()> {
    if name.is_empty() || name.len() > max {
        let accepted = format!("has {} bytes; accepted: 1 to {max}", name.len());
        return Err(Error::config(field, accepted));
    }
    if name.contains('\0') {
        return Err(Error::config(field, "contains a NUL; accepted: any other character"));
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_quoted() {
        let names = Names::new("a\"; DROP TABLE x; --", "my limits").unwrap();
        assert_eq!(names.states, r#""a""; DROP TABLE x; --"."my limits""#);
        assert_eq!(
            names.partition("20261231"),
            r#""a""; DROP TABLE x; --"."my limits_audit_20261231""#
        );
    }

    #[test]
    fn names_that_cannot_be_are_refused_by_field() {
        let long = "x".repeat(44);
        for (schema, table, field) in
            [("", "t", "schema"), ("s", "", "table"), ("s", &long, "table"), ("a\0", "t", "schema")]
        {
            let error = Names::new(schema, table).unwrap_err();
            assert_eq!(error.field(), Some(field));
        }
        assert!(Names::new(&"x".repeat(63), &"y".repeat(43)).is_ok());
    }

    #[test]
    fn every_work_and_every_table_has_its_own_lock() {
        let one = Names::new("s", "t").unwrap();
        let other = Names::new("s", "u").unwrap();
        assert_ne!(one.lock_number("sweep"), one.lock_number("migrate"));
        assert_ne!(one.lock_number("sweep"), other.lock_number("sweep"));
    }
}

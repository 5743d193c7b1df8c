//! Compaction: moves the values of the logs into the tables, in key order so that neighbours share
//! a page, and in small parts so that no round waits for it.
//!
//! A process continues where the last one stopped. A key that was written again since is skipped:
//! its newest value is in the other log. The index is not changed here; it reads the file after the
//! commit.

use crate::error::QueryError;
use crate::log_index::{LogIndex, LogProgress, size};
use crate::sql::Sql;

/// An epoch ends after it has appended this much. With larger epochs more keys share a page when
/// they are compacted; with smaller ones a process that starts has less to read.
const EPOCH_BYTES: usize = 2 << 20;

/// Compacts in proportion to what the last round has appended, and begins a new epoch when the
/// current one is full. Returns whether anything was written. More is compacted than appended, so
/// that the previous epoch is compacted before the current one is full.
pub(crate) fn keep_up(
    sql: &mut Sql<'_>,
    index: &LogIndex,
    progress: &mut LogProgress,
    appended: usize,
) -> Result<bool, QueryError> {
    let is_due = progress.compacted.is_some() && appended > 0;
    if is_due {
        compact_part(sql, index, progress, appended.saturating_add(appended / 2))?;
    }
    let is_full = progress.compacted.is_none() && index.bytes() >= EPOCH_BYTES;
    if is_full {
        begin_epoch(sql, progress)?;
    }
    Ok(is_due || is_full)
}

/// Begins the next epoch, which appends to the other log.
pub(crate) fn begin_epoch(sql: &mut Sql<'_>, progress: &mut LogProgress) -> Result<(), QueryError> {
    *progress = LogProgress { epoch: progress.epoch.wrapping_add(1), compacted: Some(Vec::new()) };
    sql.set_progress(progress)
}

/// Compacts at least `bytes` of the previous epoch, or all that is left of it.
pub(crate) fn compact_part(
    sql: &mut Sql<'_>,
    index: &LogIndex,
    progress: &mut LogProgress,
    bytes: usize,
) -> Result<(), QueryError> {
    let Some(after) = progress.compacted.take() else { return Ok(()) };
    let mut compacted = 0_usize;
    for (key, value) in index.values_before_epoch(progress.epoch, &after) {
        sql.write_to_table(key, value)?;
        compacted = compacted.saturating_add(size(key, value.text.as_deref()));
        if compacted >= bytes {
            progress.compacted = Some(key.to_vec());
            break;
        }
    }
    if progress.compacted.is_none() {
        sql.empty_log(progress.epoch.wrapping_sub(1))?;
    }
    sql.set_progress(progress)
}

/// Compacts everything.
pub(crate) fn compact_all(
    sql: &mut Sql<'_>,
    index: &LogIndex,
    progress: &mut LogProgress,
) -> Result<(), QueryError> {
    for (key, value) in index.values() {
        sql.write_to_table(key, value)?;
    }
    sql.empty_log(0)?;
    sql.empty_log(1)?;
    // Two epochs later: every index of the logs is read again from the start.
    *progress = LogProgress { epoch: progress.epoch.wrapping_add(2), compacted: None };
    sql.set_progress(progress)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rusqlite::Connection;
    use tollgate_testkit::rng::Rng;

    use super::*;
    use crate::schema;

    /// Names of request ids start with an r.
    fn key(rng: &mut Rng) -> String {
        format!("{}{}", rng.pick(&["k", "r"], "k"), rng.below(20))
    }

    /// Writes and deletes a few values.
    fn write(
        rng: &mut Rng,
        sql: &mut Sql<'_>,
        progress: &LogProgress,
        model: &mut BTreeMap<String, String>,
    ) {
        for _ in 0..rng.between(1, 6) {
            let (key, text) = (key(rng), rng.next_u64().to_string());
            let value = (!rng.one_in(5)).then_some(text.as_str());
            sql.append(progress.epoch, &key, (value, 7), key.starts_with('r')).unwrap();
            match value {
                Some(value) => model.insert(key, value.to_owned()),
                None => model.remove(&key),
            };
        }
    }

    fn found(sql: &mut Sql<'_>, index: &LogIndex, key: &str) -> Option<String> {
        match index.value(key) {
            Some(value) => value.text.clone(),
            None => sql.read(key, key.starts_with('r')).unwrap(),
        }
    }

    /// An index that is refreshed at any time equals one that reads the logs from the start.
    /// Together with the tables it contains what was written last.
    #[test]
    fn index_and_tables_contain_what_was_written_last() {
        let seed = 0x000F_01D5;
        println!("seed {seed:#x}");
        let rng = &mut Rng::new(seed);
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let sql = &mut Sql::prepare(&connection).unwrap();
        let (mut index, mut late) = (LogIndex::default(), LogIndex::default());
        let (mut model, mut epochs, mut unfinished) = (BTreeMap::new(), 0, 0);
        for step in 0..4_000 {
            let mut progress = index.refresh(&mut sql.log).unwrap();
            match rng.below(40) {
                0 => compact_all(sql, &index, &mut progress).unwrap(),
                1..5 if progress.compacted.is_none() => begin_epoch(sql, &mut progress).unwrap(),
                5..15 => {
                    let bytes = usize::try_from(rng.below(400)).unwrap();
                    compact_part(sql, &index, &mut progress, bytes).unwrap();
                    unfinished += usize::from(progress.compacted.is_some());
                }
                _ => write(rng, sql, &progress, &mut model),
            }
            epochs = progress.epoch;
            if !rng.one_in(20) {
                continue;
            }
            late.refresh(&mut sql.log).unwrap();
            let mut fresh = LogIndex::default();
            fresh.refresh(&mut sql.log).unwrap();
            assert!(late.values().eq(fresh.values()), "step {step}");
            assert_eq!(late.bytes(), fresh.bytes(), "step {step}");
            for number in 0..20 {
                for key in [format!("k{number}"), format!("r{number}")] {
                    let found = found(sql, &late, &key);
                    assert_eq!(found.as_ref(), model.get(&key), "{key} in step {step}");
                }
            }
        }
        println!("{epochs} epochs, {unfinished} partial compactions");
        assert!(epochs > 100 && unfinished > 100, "too few epochs or partial compactions");
    }
}

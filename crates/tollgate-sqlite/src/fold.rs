//! Moves what the logs hold into the tables: sorted, so that neighbours share a page, and a little with
//! every round, so that no round waits for it.
//!
//! Whoever has the file goes on where the last one stopped. A key that was written again since is passed
//! over: its newest value is in the other log. Nothing here changes what is kept in memory; that is read
//! from the file once it is committed.

use crate::fault::Fault;
use crate::recent::{Recent, Stage, size};
use crate::sql::Sql;

/// An epoch ends when it has written so much. Of larger ones more keys share a page when they are folded,
/// and of smaller ones less has to be read by a process that comes late.
const EPOCH_BYTES: usize = 2 << 20;

/// Goes on folding after so much was written, and begins a new epoch when it is time; whether there was
/// anything to do. What is folded is more than what was written, so that it ends before the epoch does.
pub(crate) fn keep_up(
    sql: &mut Sql<'_>,
    recent: &Recent,
    stage: &mut Stage,
    written: usize,
) -> Result<bool, Fault> {
    let is_due = stage.after.is_some() && written > 0;
    if is_due {
        some(sql, recent, stage, written.saturating_add(written / 2))?;
    }
    let is_over = stage.after.is_none() && recent.bytes() >= EPOCH_BYTES;
    if is_over {
        begin_epoch(sql, stage)?;
    }
    Ok(is_due || is_over)
}

/// From now on the other log is written.
pub(crate) fn begin_epoch(sql: &mut Sql<'_>, stage: &mut Stage) -> Result<(), Fault> {
    *stage = Stage { epoch: stage.epoch.wrapping_add(1), after: Some(Vec::new()) };
    sql.set_stage(stage)
}

/// Folds at least so much of the epoch before, or all that is left of it.
pub(crate) fn some(
    sql: &mut Sql<'_>,
    recent: &Recent,
    stage: &mut Stage,
    bytes: usize,
) -> Result<(), Fault> {
    let Some(after) = stage.after.take() else { return Ok(()) };
    let mut folded = 0_usize;
    let mut left = recent.left_by_others(stage.epoch, &after);
    for (key, value) in left.by_ref() {
        sql.settle(key, value)?;
        folded = folded.saturating_add(size(key, value.text.as_deref()));
        if folded >= bytes {
            stage.after = Some(key.to_vec());
            break;
        }
    }
    if stage.after.is_none() {
        sql.empty_log(stage.epoch.wrapping_sub(1))?;
    }
    sql.set_stage(stage)
}

/// Folds everything.
pub(crate) fn all(sql: &mut Sql<'_>, recent: &Recent, stage: &mut Stage) -> Result<(), Fault> {
    for (key, value) in recent.values() {
        sql.settle(key, value)?;
    }
    sql.empty_log(0)?;
    sql.empty_log(1)?;
    // Two on: so that whoever knows what was in the logs forgets it.
    *stage = Stage { epoch: stage.epoch.wrapping_add(2), after: None };
    sql.set_stage(stage)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rusqlite::Connection;
    use tollgate_testkit::rng::Rng;

    use super::*;
    use crate::schema;

    /// Records of request ids begin with an r.
    fn key(rng: &mut Rng) -> String {
        format!("{}{}", rng.pick(&["k", "r"], "k"), rng.below(20))
    }

    /// Writes a few values, or forgets some.
    fn write(
        rng: &mut Rng,
        sql: &mut Sql<'_>,
        stage: &Stage,
        model: &mut BTreeMap<String, String>,
    ) {
        for _ in 0..rng.between(1, 6) {
            let (key, text) = (key(rng), rng.next_u64().to_string());
            let value = (!rng.one_in(5)).then_some(text.as_str());
            sql.append(stage.epoch, &key, (value, 7), key.starts_with('r')).unwrap();
            match value {
                Some(value) => model.insert(key, value.to_owned()),
                None => model.remove(&key),
            };
        }
    }

    fn found(sql: &mut Sql<'_>, recent: &Recent, key: &str) -> Option<String> {
        match recent.value(key) {
            Some(value) => value.text.clone(),
            None => sql.read(key, key.starts_with('r')).unwrap(),
        }
    }

    /// Whoever reads on, at whatever time, knows what somebody knows who reads everything, and with the
    /// tables that is what was written last.
    #[test]
    fn logs_and_tables_are_what_was_written_last_however_late_they_are_read() {
        let seed = 0x000F_01D5;
        println!("seed {seed:#x}");
        let rng = &mut Rng::new(seed);
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection).unwrap();
        let sql = &mut Sql::prepare(&connection).unwrap();
        let (mut recent, mut late) = (Recent::default(), Recent::default());
        let (mut model, mut epochs, mut unfinished) = (BTreeMap::new(), 0, 0);
        for step in 0..4_000 {
            let mut stage = recent.refresh(&mut sql.log).unwrap();
            match rng.below(40) {
                0 => all(sql, &recent, &mut stage).unwrap(),
                1..5 if stage.after.is_none() => begin_epoch(sql, &mut stage).unwrap(),
                5..15 => {
                    let bytes = usize::try_from(rng.below(400)).unwrap();
                    some(sql, &recent, &mut stage, bytes).unwrap();
                    unfinished += usize::from(stage.after.is_some());
                }
                _ => write(rng, sql, &stage, &mut model),
            }
            epochs = stage.epoch;
            if !rng.one_in(20) {
                continue;
            }
            late.refresh(&mut sql.log).unwrap();
            let mut fresh = Recent::default();
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
        println!("{epochs} epochs, {unfinished} folds that did not reach the end");
        assert!(epochs > 100 && unfinished > 100, "nothing was tried");
    }
}

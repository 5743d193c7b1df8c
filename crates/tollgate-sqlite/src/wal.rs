//! Verifies the write-ahead log of SQLite when a file is opened.
//!
//! After a crash SQLite takes the log up to the first frame that does not verify, and silently
//! ignores the rest: right for a transaction that was cut short, and a loss of charges if a frame
//! in the middle was damaged. So the store looks for transactions behind such a frame itself. The
//! format is stable: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs;
use std::path::Path;

/// Bytes of the header of the log, and of each frame before its page.
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The first word of a log, whose last bit says how the words of checksums are stored.
const MAGIC: u32 = 0x377F_0682;

/// How many commits of the log SQLite ignores because a frame before them, or of them, does not
/// verify. The caller holds the write lock: no process writes to the log meanwhile.
pub(crate) fn lost_commits(log: &Path) -> u64 {
    // Without a log that can be read there is nothing that SQLite would have ignored.
    fs::read(log).map_or(0, |bytes| count_lost(&bytes).unwrap_or(0))
}

/// `None` for a log that is too short to have commits.
fn count_lost(log: &[u8]) -> Option<u64> {
    let (header, frames) = log.split_at_checked(LOG_HEADER)?;
    let page = usize::try_from(word(header, 8)?).ok()?;
    let salts = header.get(16..24)?;
    let big_endian = word(header, 0)? & 1 == 1;
    let mut sum = checksum((0, 0), header.get(..24)?, big_endian);
    let mut is_valid = word(header, 0)? & !1 == MAGIC
        && page.is_power_of_two()
        && (word(header, 24)?, word(header, 28)?) == sum;
    if !(512..=65_536).contains(&page) {
        return None;
    }
    let mut lost = 0;
    for frame in frames.chunks_exact(FRAME_HEADER + page) {
        let (own, content) = frame.split_at_checked(FRAME_HEADER)?;
        // What a log had before it started over has other salts.
        let is_current = own.get(8..16)? == salts;
        if is_valid && is_current {
            sum = checksum(checksum(sum, own.get(..8)?, big_endian), content, big_endian);
        }
        is_valid &= is_current && (word(own, 16)?, word(own, 20)?) == sum;
        // The last frame of a transaction has the size of the database.
        lost += u64::from(!is_valid && is_current && word(own, 4)? > 0);
    }
    Some(lost)
}

/// The checksum of SQLite over pairs of words.
fn checksum(before: (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let number = |word: &[u8]| {
        let word = word.try_into().unwrap_or_default();
        if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    };
    bytes.chunks_exact(8).fold(before, |(first, second), pair| {
        let (one, two) = pair.split_at(4);
        let first = first.wrapping_add(number(one)).wrapping_add(second);
        (first, second.wrapping_add(number(two)).wrapping_add(first))
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// The log of a file with ten commits.
    fn log() -> Vec<u8> {
        let folder = tollgate_test_servers::Folder::new("wal").unwrap();
        let path = folder.path().join("log.db");
        let connection = Connection::open(&path).unwrap();
        let setup = "PRAGMA journal_mode = wal; CREATE TABLE t (v TEXT)";
        connection.execute_batch(setup).unwrap();
        for number in 0..9 {
            connection.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
        }
        fs::read(folder.path().join("log.db-wal")).unwrap()
    }

    #[test]
    fn a_log_that_verifies_has_lost_nothing() {
        let log = log();
        assert_eq!(count_lost(&log), Some(0));
        assert_eq!(count_lost(&[]), None);
        // The last transaction was cut short.
        assert_eq!(count_lost(&log[..log.len() - 100]), Some(0));
    }

    #[test]
    fn commits_behind_a_damaged_frame_are_lost() {
        let log = log();
        let frame = FRAME_HEADER + 4_096;
        let frames = (log.len() - LOG_HEADER) / frame;
        let mut lost = Vec::new();
        for damaged in 0..frames {
            let mut log = log.clone();
            log[LOG_HEADER + damaged * frame + 2_000] ^= 1;
            lost.push(count_lost(&log).unwrap());
        }
        assert_eq!((lost[0], *lost.last().unwrap()), (10, 1));
        assert!(lost.windows(2).all(|pair| pair[0] >= pair[1]), "{lost:?}");
        let mut header = log;
        header[25] ^= 1;
        assert_eq!(count_lost(&header), Some(10));
    }
}

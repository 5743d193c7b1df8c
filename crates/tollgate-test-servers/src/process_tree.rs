//! The processes of one server: PostgreSQL has one per connection.

use std::fs;

/// The state of a process, as a letter of the kernel; `None` once it does not exist.
pub(super) fn state(id: u32) -> Option<char> {
    Some(stat(id)?.0)
}

/// Whether a process has ended, even if its parent has not waited for it yet.
pub(super) fn is_gone(id: u32) -> bool {
    matches!(state(id), None | Some('Z' | 'X'))
}

/// The children of a process, and theirs. Complete only while the process is frozen, because it may
/// fork.
pub(super) fn descendants(id: u32) -> Vec<u32> {
    let all: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|child| Some((child, stat(child)?.1)))
        .collect();
    let mut tree = vec![id];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        let children = all.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child);
        tree.extend(children);
        next += 1;
    }
    tree.split_off(1)
}

/// State and parent of a process.
fn stat(id: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may hold anything; state and parent follow the last one.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

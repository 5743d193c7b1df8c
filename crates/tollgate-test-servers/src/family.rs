//! The processes of one server: some answer every connection by a process of their own.

use std::fs;

/// The letter that the kernel gives for what a process is doing; `None` once it is gone.
pub(super) fn state(id: u32) -> Option<char> {
    Some(stat(id)?.0)
}

/// Whether a process has come to its end, though its parent may not have noticed yet.
pub(super) fn is_gone(id: u32) -> bool {
    matches!(state(id), None | Some('Z' | 'X'))
}

/// The children of a process, and theirs. Complete only while the process stands still, for else it
/// may be making more.
pub(super) fn descendants(id: u32) -> Vec<u32> {
    let everybody: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|child| Some((child, stat(child)?.1)))
        .collect();
    let mut family = vec![id];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        let children = everybody.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child);
        family.extend(children);
        next += 1;
    }
    family.split_off(1)
}

/// State and parent of a process.
fn stat(id: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in parentheses, may hold anything; state and parent follow the last one.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

//! Rules about the text of a file.

use crate::files::File;

/// Production lines a file may have.
const LINES_MAX: usize = 400;

/// Every Rust file starts with its documentation.
pub(crate) fn opens_with_documentation(files: &[File]) -> Vec<String> {
    let silent = files.iter().filter(|file| file.is_rust() && !file.text.starts_with("//!"));
    silent.map(|file| format!("{}:1: does not open with `//!`", file.path)).collect()
}

/// A file that ships has at most 400 lines, its tests not counted.
pub(crate) fn is_short(files: &[File]) -> Vec<String> {
    let long = |file: &&File| file.production_lines().len() > LINES_MAX;
    let long = files.iter().filter(|file| file.is_production()).filter(long);
    long.map(|file| format!("{}: has over {LINES_MAX} production lines", file.path)).collect()
}

/// No marks for later, no skipped test, no example that is not compiled.
pub(crate) fn leaves_nothing_undone(files: &[File]) -> Vec<String> {
    // In two halves, so that this file passes.
    const EVERYWHERE: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];
    const IN_RUST: [&str; 2] = [concat!("#[ig", "nore"), concat!("to", "do!")];
    const IN_EXAMPLES: &str = concat!("```ig", "nore");
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() || file.is_markdown()) {
        for (number, line) in file.lines() {
            let marks = EVERYWHERE.iter().chain(&[IN_EXAMPLES]);
            let marks = marks.chain(IN_RUST.iter().filter(|_| file.is_rust()));
            for mark in marks.filter(|mark| line.contains(**mark)) {
                wrong.push(format!("{}:{number}: holds `{mark}`", file.path));
            }
        }
    }
    wrong
}

/// A feature adds or leaves out modules and re-exports. It never changes what code does.
pub(crate) fn features_select_items_only(files: &[File]) -> Vec<String> {
    let names_feature = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        code.contains("cfg") && code.contains(concat!("feat", "ure ="))
    };
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| names_feature(line)) {
            let mut after = lines.iter().skip(index + 1);
            let item = after.find(|line| !line.starts_with('#') && !line.starts_with("//"));
            let on_an_item = line.starts_with("#[cfg(") && item.is_some_and(|line| is_item(line));
            if !on_an_item && !line.starts_with("#![cfg_attr(") {
                let message = "features select `mod` and `use` lines only";
                wrong.push(format!("{}:{}: {message}", file.path, index + 1));
            }
        }
    }
    wrong
}

/// A module or a re-export, at the left margin.
fn is_item(line: &str) -> bool {
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or("", |(_, rest)| rest),
        Some(rest) => rest.trim_start(),
        None => line,
    };
    rest.starts_with("mod ") || rest.starts_with("use ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complains(rule: fn(&[File]) -> Vec<String>, text: &str) -> bool {
        !rule(&[File::new("a/src/b.rs", text)]).is_empty()
    }

    #[test]
    fn a_file_without_documentation_is_found() {
        assert!(complains(opens_with_documentation, "fn main() {}\n"));
        assert!(!complains(opens_with_documentation, "//! Says what it is.\n"));
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let long = "line\n".repeat(LINES_MAX);
        assert!(complains(is_short, &format!("{long}line\n")));
        assert!(!complains(is_short, &format!("{long}#[cfg(test)]\nmod tests {{\n{long}}}\n")));
    }

    #[test]
    fn what_was_put_off_is_found() {
        let put_off =
            [concat!("// TO", "DO"), concat!("#[ig", "nore]"), concat!("//! ```ig", "nore")];
        for text in put_off {
            assert!(complains(leaves_nothing_undone, text), "{text}");
        }
        assert!(!complains(leaves_nothing_undone, "// all is done"));
    }

    #[test]
    fn a_feature_inside_a_function_is_found() {
        let attribute = concat!("#[cfg(feat", "ure = \"redis\")]");
        for item in ["pub mod redis;", "mod redis;", "pub(crate) use redis::Redis;"] {
            assert!(!complains(features_select_items_only, &format!("{attribute}\n{item}\n")));
        }
        assert!(complains(features_select_items_only, &format!("    {attribute}\n    mod a;\n")));
        assert!(complains(features_select_items_only, &format!("{attribute}\nfn open() {{}}\n")));
    }
}

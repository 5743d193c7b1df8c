//! Manual pages and completions, as the binary prints them.

use std::path::Path;

use crate::run::{command, output};

/// A shell, and where it looks for completions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    shell: &'static str,
    /// The name of the file.
    pub(super) file: &'static str,
    /// The folder in a Debian system, below `/usr/share`.
    pub(super) folder: &'static str,
}

const COMPLETIONS: [Completion; 3] = [
    Completion { shell: "bash", file: "tollgate.bash", folder: "bash-completion/completions" },
    Completion { shell: "fish", file: "tollgate.fish", folder: "fish/vendor_completions.d" },
    Completion { shell: "zsh", file: "_tollgate", folder: "zsh/vendor-completions" },
];

/// What documents a binary.
#[derive(Debug)]
pub(super) struct Documents {
    /// Names of files, such as `tollgate.1`, and texts.
    pub(super) manual_pages: Vec<(String, String)>,
    pub(super) completions: Vec<(Completion, String)>,
}

impl Documents {
    /// Runs a binary for its documents.
    ///
    /// # Errors
    /// When it does not run here, or prints no page.
    pub(super) fn of(binary: &Path) -> Result<Self, String> {
        let binary = binary.to_string_lossy();
        let manual_pages = pages(&output(command(&binary, &["man"]))?);
        if manual_pages.is_empty() {
            return Err(format!("{binary} man prints no page"));
        }
        let mut completions = Vec::new();
        for completion in COMPLETIONS {
            let text = output(command(&binary, &["completions", completion.shell]))?;
            completions.push((completion, text));
        }
        Ok(Self { manual_pages, completions })
    }
}

/// The pages in a text of several: each begins with `.TH NAME SECTION`, or with the two lines
/// before that which define a quotation mark.
fn pages(text: &str) -> Vec<(String, String)> {
    const DEFINITION: &str = ".ie \\n(.g";
    let lines: Vec<&str> = text.lines().collect();
    let titles = lines.iter().enumerate().filter(|(_, line)| line.starts_with(".TH "));
    let starts = titles.map(|(title, _)| {
        let has_definition =
            |start: &usize| lines.get(*start).is_some_and(|line| line.starts_with(DEFINITION));
        (title.checked_sub(2).filter(has_definition).unwrap_or(title), title)
    });
    let starts: Vec<(usize, usize)> = starts.collect();
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([lines.len()]);
    let page = |((start, title), end): (&(usize, usize), usize)| {
        let mut words = lines.get(*title)?.split_whitespace().skip(1);
        let (name, section) = (words.next()?, words.next()?);
        let text: String = lines.get(*start..end)?.iter().flat_map(|line| [line, "\n"]).collect();
        Some((format!("{}.{section}", name.to_lowercase()), text))
    };
    starts.iter().zip(ends).filter_map(page).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_separated() {
        let definition = ".ie \\n(.g .ds Aq x\n.el .ds Aq y\n";
        let one = format!("{definition}.TH tollgate 1  \"tollgate 1.0\"\n.SH NAME\n");
        let two = format!("{definition}.TH tollgate-serve 1\n.SH NAME\n");
        let found = pages(&format!("{one}{two}"));
        assert_eq!(found, [("tollgate.1".into(), one), ("tollgate-serve.1".into(), two)]);
        let bare = ".TH A 5\n.TH B 1\n";
        assert_eq!(pages(bare).len(), 2);
        assert!(pages("nothing").is_empty());
    }
}

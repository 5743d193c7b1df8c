//! The fields of an algorithm in a configuration. Each algorithm declares its own in its folder;
//! the parser, the JSON Schema and the documentation follow.

/// The fields from which a quota is written.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QuotaFields {
    /// The field of the rate, which is required.
    pub rate: &'static str,
    /// The other field, which is optional, if there is one.
    pub option: Option<OptionSpec>,
}

/// The optional field of an algorithm.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The name.
    pub name: &'static str,
    /// The accepted values.
    pub kind: OptionKind,
    /// What it means, for documentation.
    pub meaning: &'static str,
}

/// The values of an optional field.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A whole number from this one on.
    Whole(u64),
    /// One of these words; its value is the position of the word.
    Word(&'static [&'static str]),
}

impl QuotaFields {
    /// A rate alone.
    pub(super) const fn rate(rate: &'static str) -> Self {
        Self { rate, option: None }
    }

    /// Besides, a whole number from `least` on.
    pub(super) const fn whole(self, name: &'static str, least: u64, meaning: &'static str) -> Self {
        let kind = OptionKind::Whole(least);
        Self { rate: self.rate, option: Some(OptionSpec { name, kind, meaning }) }
    }

    /// Besides, one of several words.
    pub(super) const fn word(
        self,
        name: &'static str,
        words: &'static [&'static str],
        meaning: &'static str,
    ) -> Self {
        let kind = OptionKind::Word(words);
        Self { rate: self.rate, option: Some(OptionSpec { name, kind, meaning }) }
    }
}

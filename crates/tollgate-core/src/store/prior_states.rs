//! The states that a store found.

use core::ops::Deref;

use crate::state::State;

/// The state of each charge's key before an admission, in the order of the charges. Most admissions
/// have one charge, and then nothing is allocated.
#[derive(Clone, Debug)]
pub struct PriorStates(Repr);

#[derive(Clone, Debug)]
enum Repr {
    One([Option<State>; 1]),
    Many(Vec<Option<State>>),
}

impl Deref for PriorStates {
    type Target = [Option<State>];

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Repr::One(one) => one,
            Repr::Many(many) => many,
        }
    }
}

impl From<Option<State>> for PriorStates {
    fn from(one: Option<State>) -> Self {
        Self(Repr::One([one]))
    }
}

impl From<Vec<Option<State>>> for PriorStates {
    fn from(many: Vec<Option<State>>) -> Self {
        Self(Repr::Many(many))
    }
}

impl From<PriorStates> for Vec<Option<State>> {
    fn from(before: PriorStates) -> Self {
        match before.0 {
            Repr::One(one) => one.into(),
            Repr::Many(many) => many,
        }
    }
}

impl<'b> IntoIterator for &'b PriorStates {
    type Item = &'b Option<State>;
    type IntoIter = core::slice::Iter<'b, Option<State>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for PriorStates {
    type Item = Option<State>;
    type IntoIter = std::vec::IntoIter<Option<State>>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(self).into_iter()
    }
}

impl PartialEq for PriorStates {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PriorStates {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{QuotaId, Words};

    #[test]
    fn one_state_is_the_same_however_it_is_kept() {
        let state = Some(State { quota_id: QuotaId([1, 2, 3, 4]), words: Words::new(&[5]) });
        let (one, many) =
            (PriorStates::from(state.clone()), PriorStates::from(vec![state.clone()]));
        assert_eq!(one, many);
        assert_eq!(Vec::from(one), vec![state]);
        assert_ne!(PriorStates::from(None), many);
    }
}

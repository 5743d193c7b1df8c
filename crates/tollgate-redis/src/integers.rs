//! Integers that a server answered, one after another.

use core::fmt;
use core::ops::Deref;

/// So many need no allocation: the reply to a call with one key.
const FEW: usize = 6;

/// A list of integers; a few of them need no allocation.
#[derive(Clone)]
pub struct Integers(Kept);

#[derive(Clone)]
enum Kept {
    Few { numbers: [i64; FEW], count: u8 },
    Many(Vec<i64>),
}

impl Integers {
    /// None so far, and room for so many.
    #[inline]
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self(match count {
            0..=FEW => Kept::Few { numbers: [0; FEW], count: 0 },
            _ => Kept::Many(Vec::with_capacity(count)),
        })
    }

    #[inline]
    pub(crate) fn push(&mut self, number: i64) {
        match &mut self.0 {
            Kept::Few { numbers, count } => match numbers.get_mut(usize::from(*count)) {
                Some(place) => {
                    *place = number;
                    *count += 1;
                }
                None => {
                    let mut many = numbers.to_vec();
                    many.push(number);
                    self.0 = Kept::Many(many);
                }
            },
            Kept::Many(many) => many.push(number),
        }
    }
}

impl FromIterator<i64> for Integers {
    fn from_iter<I: IntoIterator<Item = i64>>(numbers: I) -> Self {
        let numbers = numbers.into_iter();
        let mut all = Self::with_capacity(numbers.size_hint().0);
        numbers.for_each(|number| all.push(number));
        all
    }
}

impl Deref for Integers {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        match &self.0 {
            Kept::Few { numbers, count } => numbers.get(..usize::from(*count)).unwrap_or_default(),
            Kept::Many(many) => many,
        }
    }
}

impl PartialEq for Integers {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Integers {}

impl fmt::Debug for Integers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_those_that_were_pushed_however_many() {
        for count in [0, 1, 5, 6, 7, 8, 100] {
            let expected: Vec<i64> = (0..count).map(|number| number - 3).collect();
            let (few, mut grown): (Integers, _) =
                (expected.iter().copied().collect(), Integers::with_capacity(0));
            expected.iter().for_each(|number| grown.push(*number));
            assert_eq!(*few, *expected);
            assert_eq!(few, grown);
            assert_eq!(format!("{few:?}"), format!("{expected:?}"));
        }
    }
}

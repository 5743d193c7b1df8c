//! Which waiters a round takes when there are more than it has places for.
//!
//! The policies share the places evenly; what one does not need is for the others. Within a policy
//! the keys take turns: the first waiter of each key, then the second of each. So a flood on one
//! key delays other keys, and a flood in one policy other policies, by one round.

use std::collections::HashMap;

use crate::store::Owner;

/// The order in which a policy gives its waiters places: how many of the same key are before it,
/// then the place in the queue.
type Turn = (usize, usize);

/// Whether each of these waiters gets one of `places`. Every policy gets at least one.
pub(super) fn choose(waiters: &[Owner], places: usize) -> Vec<bool> {
    let mut before: HashMap<Owner, usize> = HashMap::new();
    let mut policies: HashMap<u64, Vec<Turn>> = HashMap::new();
    for (place, owner) in waiters.iter().enumerate() {
        let same_key = before.entry(*owner).or_default();
        policies.entry(owner.policy).or_default().push((*same_key, place));
        *same_key += 1;
    }
    let mut policies: Vec<Vec<Turn>> = policies.into_values().collect();
    // The smallest first: what they leave is shared by the others.
    policies.sort_unstable_by_key(Vec::len);
    let (mut left, mut others) = (places.max(policies.len()), policies.len());
    let mut is_chosen = vec![false; waiters.len()];
    for mut turns in policies {
        let share = left.div_ceil(others);
        if share < turns.len() {
            turns.select_nth_unstable(share);
        }
        for (_, place) in turns.iter().take(share) {
            if let Some(is_chosen) = is_chosen.get_mut(*place) {
                *is_chosen = true;
            }
        }
        left -= share.min(turns.len());
        others -= 1;
    }
    is_chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiters(keys: impl IntoIterator<Item = (u64, u64)>) -> Vec<Owner> {
        keys.into_iter().map(|(policy, key)| Owner { policy, key }).collect()
    }

    /// The places in the queue of those that are chosen.
    fn chosen(waiters: &[Owner], places: usize) -> Vec<usize> {
        let chosen = choose(waiters, places).into_iter().enumerate();
        chosen.filter(|(_, is_chosen)| *is_chosen).map(|(place, _)| place).collect()
    }

    #[test]
    fn a_flood_in_one_policy_keeps_no_other_policy_out() {
        let flood = (0..1_000).map(|key| (1, key));
        let waiters = waiters(flood.chain([(2, 7), (3, 7), (3, 8)]));
        let chosen = chosen(&waiters, 10);
        // The flood gets the places that are left, in order.
        assert_eq!(chosen, [0, 1, 2, 3, 4, 5, 6, 1_000, 1_001, 1_002]);
    }

    #[test]
    fn a_flood_on_one_key_keeps_no_other_key_of_its_policy_out() {
        let waiters = waiters((0..100).map(|_| (1, 1)).chain([(1, 2), (1, 2), (1, 3)]));
        assert_eq!(chosen(&waiters, 4), [0, 1, 100, 102]);
        assert_eq!(chosen(&waiters, 5), [0, 1, 100, 101, 102]);
    }

    #[test]
    fn places_that_a_policy_does_not_need_are_for_the_others() {
        let waiters = waiters((0..50).map(|number| (number % 2, number)).chain([(9, 9)]));
        let chosen = chosen(&waiters, 21);
        assert_eq!(chosen.iter().filter(|place| *place % 2 == 1 && **place < 50).count(), 10);
        assert_eq!(chosen.len(), 21);
        assert_eq!(chosen.last(), Some(&50));
    }

    #[test]
    fn every_policy_gets_a_place_and_no_more_are_given_than_there_are() {
        let many = waiters((0..300).map(|number| (number % 100, number)));
        assert_eq!(chosen(&many, 7), (0..100).collect::<Vec<_>>());
        assert_eq!(chosen(&many, 1_000).len(), 300);
        assert_eq!(chosen(&[], 3).len(), 0);
    }
}

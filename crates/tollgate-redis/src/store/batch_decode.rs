//! The reply to a call for single charges becomes an answer for each of them.

use tollgate_core::store::Evidence;
use tollgate_core::{Error, Now, Result, Rule, State};

use super::batch_encode::{Item, ItemResult, KeyCharges};
use super::reply::{KeyReply, Numbers, full, unreadable};
use crate::error_reply::{is_forbidden_key, is_try_again};
use crate::transport::Reply;

/// The keys that a call charges, in the order of its reply.
#[derive(Debug)]
pub(super) struct Decoder {
    pub(super) keys: Vec<KeyCharges>,
}

impl Decoder {
    /// Answers every item, by its index. Returns the keys when the server refused the call for the
    /// sake of one of them: a slot is being moved and its keys are on two nodes, or a right is
    /// missing. Nothing was run, and each key has to be sent alone.
    pub(super) fn read(
        self,
        items: &[&Item],
        reply: Result<Reply>,
        mut answer: impl FnMut(usize, ItemResult),
    ) -> Vec<KeyCharges> {
        if self.keys.len() > 1 && (is_try_again(&reply) || is_forbidden_key(&reply)) {
            return self.keys;
        }
        let mut numbers = match reply.and_then(Reply::ok).and_then(Numbers::of) {
            Ok(numbers) => numbers,
            Err(error) => {
                self.keys.iter().for_each(|key| fail(key, &error, &mut answer));
                return Vec::new();
            }
        };
        for key in self.keys {
            let Some(rule) = key.first(items).map(|item| &item.rule) else { continue };
            match numbers.found(rule.quota_id()) {
                Ok(KeyReply::State(state)) => {
                    replay(&key, items, (rule, numbers.now()), state, &mut answer);
                }
                Ok(KeyReply::Another) => {
                    key.items.iter().for_each(|index| answer(*index, ItemResult::NotScripted));
                }
                Ok(KeyReply::Full) => fail(&key, &full(), &mut answer),
                Err(_) => fail(&key, &unreadable(), &mut answer),
            }
        }
        Vec::new()
    }
}

fn fail(key: &KeyCharges, error: &Error, answer: &mut impl FnMut(usize, ItemResult)) {
    key.items.iter().for_each(|index| answer(*index, ItemResult::Failed(error.clone())));
}

/// The charges of a key one after another, as the script has run them.
fn replay(
    key: &KeyCharges,
    items: &[&Item],
    (rule, now): (&Rule, Now),
    mut state: Option<State>,
    answer: &mut impl FnMut(usize, ItemResult),
) {
    let mut rest = key.items.iter().copied().peekable();
    while let Some(index) = rest.next() {
        let following = rest.peek().and_then(|_| {
            let words = state.as_ref().map_or(&[][..], |state| &state.words);
            let cost = items.get(index)?.cost;
            rule.step(words, now, cost).write
        });
        let after = following
            .map(|write| State::new(rule.quota_id(), write.words))
            .or_else(|| rest.peek().and_then(|_| state.clone()));
        answer(index, ItemResult::Decided(Evidence::decided(now, vec![state])));
        state = after;
    }
}

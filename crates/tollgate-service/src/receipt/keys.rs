//! The key of receipts in force, and those before it: a receipt outlives a change of the secret.
//!
//! Which key made a receipt follows from when its charge was made. So a replay gets the receipt
//! that the charge had, and no charge ever has two.

use tollgate_core::Result;

use super::{AHEAD_MAX_S, OpenedReceipt, ReceiptContent, ReceiptKey};

/// The longest time for which a receipt is accepted: no request id is kept for longer.
const VALID_FOR_MAX_S: u64 = 30 * 24 * 60 * 60;
/// The most earlier keys that are kept. With more changes than that while a receipt is valid, the
/// oldest receipts are refused.
const EARLIER_MAX: usize = 16;

/// The keys of a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReceiptKeys {
    /// Without a key there are no receipts.
    current: Option<ReceiptKey>,
    /// Each with the last second of its charges, the oldest first.
    earlier: Vec<(ReceiptKey, u64)>,
}

impl ReceiptKeys {
    /// One key, or none.
    pub(crate) const fn new(current: Option<ReceiptKey>) -> Self {
        Self { current, earlier: Vec::new() }
    }

    /// The same after a change of the key in this second.
    pub(crate) fn changed(&self, key: ReceiptKey, now_s: u64) -> Self {
        let mut earlier = self.earlier.clone();
        earlier.extend(self.current.clone().map(|key| (key, now_s)));
        earlier.retain(|(_, until_s)| until_s + VALID_FOR_MAX_S + AHEAD_MAX_S >= now_s);
        earlier.drain(..earlier.len().saturating_sub(EARLIER_MAX));
        Self { current: Some(key), earlier }
    }

    /// The key of a charge that was made in this second.
    pub(crate) fn of_charge_at(&self, at_s: u64) -> Option<&ReceiptKey> {
        let earlier = self.earlier.iter().find(|(_, until_s)| at_s <= *until_s);
        earlier.map(|(key, _)| key).or(self.current.as_ref())
    }

    /// The text of a receipt.
    pub(crate) fn seal(&self, content: &ReceiptContent) -> Option<String> {
        Some(self.of_charge_at(content.charged_at_s)?.seal(content))
    }

    /// Reads a receipt at an instant; `None` without a key.
    pub(crate) fn open(&self, text: &str, now_s: u64) -> Option<Result<OpenedReceipt>> {
        let refused = match self.current.as_ref()?.open(text, now_s) {
            Ok(opened) => return Some(Ok(opened)),
            Err(refused) => refused,
        };
        let by_earlier = self.earlier.iter().find_map(|(key, until_s)| {
            let opened = key.open(text, now_s).ok()?;
            // An old secret makes no receipts for charges after its time.
            (opened.content.charged_at_s <= *until_s).then_some(opened)
        });
        Some(by_earlier.ok_or(refused))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::Cost;

    use super::super::{ChargedLimit, ChargedSubject};
    use super::*;

    const CHANGE_S: u64 = 1_800_000_000;
    const VALID_FOR_S: u64 = 300;

    fn key(secret: &str) -> ReceiptKey {
        ReceiptKey::of_secrets(secret, "").unwrap()
    }

    fn content(charged_at_s: u64) -> ReceiptContent {
        let (policy, key) = ("p".to_owned(), "k".to_owned());
        let limit = ChargedLimit { name: "p".to_owned(), units: Cost::ONE, until_ms: 7 };
        let subjects = vec![ChargedSubject { policy, key, limits: vec![limit] }];
        ReceiptContent { charged_at_s, valid_for_s: VALID_FOR_S, nonce: 7, subjects }
    }

    #[test]
    fn receipts_before_a_change_stay_valid_and_stay_the_same() {
        let before = ReceiptKeys::new(Some(key("the first secret.")));
        let text = before.seal(&content(CHANGE_S - 10)).unwrap();
        let after = before.changed(key("the second secret"), CHANGE_S);
        assert_eq!(after.seal(&content(CHANGE_S - 10)).unwrap(), text, "a replay");
        let opened =
            |keys: &ReceiptKeys, text: &str, now_s| keys.open(text, now_s).unwrap().is_ok();
        assert!(opened(&after, &text, CHANGE_S + 5));
        assert!(!opened(&after, &text, CHANGE_S - 10 + VALID_FOR_S + 1));
        let later = after.seal(&content(CHANGE_S + 1)).unwrap();
        assert!(opened(&after, &later, CHANGE_S + 5) && !opened(&before, &later, CHANGE_S + 5));
        // Two changes: each receipt is that of its time.
        let third = after.changed(key("the third secret."), CHANGE_S + 20);
        assert!(opened(&third, &text, CHANGE_S + 30) && opened(&third, &later, CHANGE_S + 30));
        assert_eq!(third.seal(&content(CHANGE_S + 1)).unwrap(), later);
    }

    #[test]
    fn an_old_secret_makes_no_receipts_for_later_charges() {
        let old = key("the first secret.");
        let keys = ReceiptKeys::new(Some(old.clone())).changed(key("the second secret"), CHANGE_S);
        let forged = old.seal(&content(CHANGE_S + 1));
        assert!(keys.open(&forged, CHANGE_S + 5).unwrap().is_err());
        let much_later = keys.changed(key("the third secret."), CHANGE_S + 2 * VALID_FOR_MAX_S);
        assert_eq!(much_later.earlier.len(), 1, "the first one is forgotten");
    }
}

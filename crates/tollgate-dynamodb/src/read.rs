//! Strongly consistent reads.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use tollgate_core::Result;
use tollgate_core::store::cas::Entry;

use crate::error::{RequestError, invalid_request};
use crate::item::{self, Item};
use crate::retry::Attempts;
use crate::table::Table;

/// The largest number of keys in one BatchGetItem.
const BATCH_MAX: usize = 100;

impl Table {
    /// The value of each key, in the order of the keys. A read changes nothing, so every transient
    /// error is retried.
    pub(crate) async fn get(&self, keys: &[&str]) -> Result<Vec<Option<Entry>>> {
        let mut attempts = Attempts::within(self.timeout);
        if let [key] = keys {
            let item = self.get_one(&mut attempts, key).await?;
            return Ok(vec![item.map(item::entry_of).transpose()?]);
        }
        let mut found: HashMap<String, Item> = HashMap::with_capacity(keys.len());
        for batch in keys.chunks(BATCH_MAX) {
            self.get_batch(&mut attempts, batch, &mut found).await?;
        }
        let entries = keys.iter().map(|key| found.remove(*key).map(item::entry_of).transpose());
        entries.collect()
    }

    /// The item of one key.
    pub(crate) async fn get_one(&self, attempts: &mut Attempts, key: &str) -> Result<Option<Item>> {
        let key = item::key(key)?;
        let client = self.client().await?;
        loop {
            let get = client.get_item().table_name(&self.name).consistent_read(true);
            let get = get.key(item::KEY, key.clone());
            let got = async { get.send().await.map_err(|error| RequestError::of(&error)) };
            match attempts.run(Box::pin(got)).await {
                Ok(output) => return Ok(output.item),
                Err(error) => wait_or_fail(error, attempts).await?,
            }
        }
    }

    /// The items of several keys. Keys without an item are left out.
    async fn get_batch(
        &self,
        attempts: &mut Attempts,
        keys: &[&str],
        found: &mut HashMap<String, Item>,
    ) -> Result<()> {
        let client = self.client().await?;
        let mut missing = Vec::with_capacity(keys.len());
        for key in keys {
            missing.push(Item::from([(item::KEY.to_owned(), item::key(key)?)]));
        }
        while !missing.is_empty() {
            let keys = KeysAndAttributes::builder().set_keys(Some(missing.clone()));
            let keys = keys.consistent_read(true).build();
            let keys = keys.map_err(|_| invalid_request())?;
            let get = client.batch_get_item().request_items(&self.name, keys);
            let got = async { get.send().await.map_err(|error| RequestError::of(&error)) };
            match attempts.run(Box::pin(got)).await {
                Ok(mut output) => {
                    let items = output.responses.as_mut().and_then(|all| all.remove(&self.name));
                    for item in items.unwrap_or_default() {
                        let name = item::name_of(&item).map(str::to_owned);
                        found.extend(name.map(|name| (name, item)));
                    }
                    missing = unprocessed(output.unprocessed_keys, &self.name);
                    if !missing.is_empty() {
                        wait_or_fail(RequestError::of_unprocessed(), attempts).await?;
                    }
                }
                Err(error) => wait_or_fail(error, attempts).await?,
            }
        }
        Ok(())
    }
}

/// The keys of this table that DynamoDB had no capacity for.
fn unprocessed(
    keys: Option<HashMap<String, KeysAndAttributes>>,
    table: &str,
) -> Vec<HashMap<String, AttributeValue>> {
    let keys = keys.and_then(|mut all| all.remove(table));
    keys.map(|keys| keys.keys).unwrap_or_default()
}

/// Waits before a retry if the error is transient.
async fn wait_or_fail(error: RequestError, attempts: &mut Attempts) -> Result<()> {
    use RequestError::{ConditionFailed, Conflict, OutcomeUnknown, Throttled};
    attempts.record_throttled(matches!(error, Throttled(_) | ConditionFailed(_) | Conflict));
    let is_transient =
        matches!(error, Throttled(_) | ConditionFailed(_) | Conflict | OutcomeUnknown(_));
    if is_transient && attempts.wait().await { Ok(()) } else { Err(error.into_error()) }
}

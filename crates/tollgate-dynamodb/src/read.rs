//! The first half of a round: what the table holds now, strongly consistent.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use tollgate_core::store::cas::Entry;
use tollgate_core::{Error, Result};

use crate::again::Again;
use crate::fault::Fault;
use crate::item::{self, Item};
use crate::table::Table;

/// What one BatchGetItem may ask for.
const BATCH_MAX: usize = 100;

impl Table {
    /// The value of each key, in the order of the keys. Repeats whatever fails in passing: a read
    /// changes nothing.
    pub(crate) async fn find(&self, keys: &[&str]) -> Result<Vec<Option<Entry>>> {
        self.find_all(Again::within(self.timeout), keys).await
    }

    async fn find_all(&self, mut again: Again, keys: &[&str]) -> Result<Vec<Option<Entry>>> {
        if let [key] = keys {
            let item = self.find_one(&mut again, key).await?;
            return Ok(vec![item.map(item::entry_of).transpose()?]);
        }
        let mut found: HashMap<String, Item> = HashMap::with_capacity(keys.len());
        for part in keys.chunks(BATCH_MAX) {
            self.find_part(&mut again, part, &mut found).await?;
        }
        let entries = keys.iter().map(|key| found.remove(*key).map(item::entry_of).transpose());
        entries.collect()
    }

    /// The item of one key.
    pub(crate) async fn find_one(&self, again: &mut Again, key: &str) -> Result<Option<Item>> {
        let key = item::key(key)?;
        loop {
            let ask = self.client.get_item().table_name(&self.name).consistent_read(true);
            let ask = ask.key(item::KEY, key.clone());
            let answer = async { ask.send().await.map_err(|error| Fault::of(&error)) };
            let answer = again.attempt(Box::pin(answer)).await;
            match answer {
                Ok(output) => return Ok(output.item),
                Err(fault) => give_up_or_wait(fault, again).await?,
            }
        }
    }

    /// The items of several keys; those that do not exist are left out.
    async fn find_part(
        &self,
        again: &mut Again,
        keys: &[&str],
        found: &mut HashMap<String, Item>,
    ) -> Result<()> {
        let mut missing = Vec::with_capacity(keys.len());
        for key in keys {
            missing.push(Item::from([(item::KEY.to_owned(), item::key(key)?)]));
        }
        while !missing.is_empty() {
            let asked = KeysAndAttributes::builder().set_keys(Some(missing.clone()));
            let asked = asked.consistent_read(true).build();
            let asked = asked.map_err(|_| Error::config("store", "the request cannot be made"))?;
            let ask = self.client.batch_get_item().request_items(&self.name, asked);
            let answer = async { ask.send().await.map_err(|error| Fault::of(&error)) };
            let answer = again.attempt(Box::pin(answer)).await;
            match answer {
                Ok(mut output) => {
                    let items = output.responses.as_mut().and_then(|all| all.remove(&self.name));
                    for item in items.unwrap_or_default() {
                        let name = item::name_of(&item).map(str::to_owned);
                        found.extend(name.map(|name| (name, item)));
                    }
                    missing = left_over(output.unprocessed_keys, &self.name);
                    if !missing.is_empty() {
                        give_up_or_wait(Fault::of_unprocessed(), again).await?;
                    }
                }
                Err(fault) => give_up_or_wait(fault, again).await?,
            }
        }
        Ok(())
    }
}

/// What DynamoDB had no capacity for.
fn left_over(
    unprocessed: Option<HashMap<String, KeysAndAttributes>>,
    table: &str,
) -> Vec<HashMap<String, AttributeValue>> {
    let own = unprocessed.and_then(|mut all| all.remove(table));
    own.map(|keys| keys.keys).unwrap_or_default()
}

/// Whether a read is worth repeating: then this returns after a wait.
async fn give_up_or_wait(fault: Fault, again: &mut Again) -> Result<()> {
    again.note(matches!(fault, Fault::Throttled(_) | Fault::Lost(_) | Fault::Conflict));
    let error = match fault {
        Fault::Throttled(error) | Fault::Unknown(error) => error,
        Fault::Refused(error) | Fault::Late(error) => return Err(error),
        Fault::Lost(_) | Fault::Conflict => Fault::contended(),
    };
    if again.wait().await { Ok(()) } else { Err(error) }
}

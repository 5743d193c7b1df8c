//! The second half of a round: all writes or none, if nothing has changed since.
//!
//! One key is a conditional put, several are a transaction. The version that is written is a token
//! that nobody else ever writes, so a write whose answer was lost can be sent once more: if it
//! was applied, the condition of the second fails and the item that is found carries the token.
//! What can be neither confirmed nor ruled out stays unknown, and is an error.

use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use tollgate_core::store::cas::{Swap, Version};
use tollgate_core::{Error, Result};

use crate::again::Again;
use crate::fault::Fault;
use crate::item::{self, Item};
use crate::table::Table;

const IS_NEW: &str = "attribute_not_exists(#version)";
const IS_UNCHANGED: &str = "#version = :version";

/// What became of a swap.
#[derive(Debug)]
pub(crate) enum Written {
    /// All of it is in the table.
    All,
    /// Nothing is: these writes found another version, each with the item that it found if the server
    /// told. None of them when it was a transaction of somebody else that was in the way.
    Nothing(Vec<(usize, Option<Item>)>),
}

impl Table {
    /// Writes all or nothing, with `token` as the new version.
    ///
    /// # Errors
    /// `queue_full` when the table is throttled; an outage when it is unknown whether anything was
    /// written.
    pub(crate) async fn write(&self, writes: &[Swap<'_>], token: &str) -> Result<Written> {
        self.write_all(Again::within(self.timeout), writes, token).await
    }

    async fn write_all(
        &self,
        mut again: Again,
        writes: &[Swap<'_>],
        token: &str,
    ) -> Result<Written> {
        // The first attempt of which nobody knows what became.
        let mut unknown: Option<Error> = None;
        loop {
            let Err(fault) = again.attempt(Box::pin(self.send(writes, token))).await else {
                return Ok(Written::All);
            };
            let error = match (fault, unknown.take()) {
                (Fault::Lost(found), None) => return Ok(Written::Nothing(found)),
                (Fault::Conflict, None) => return Ok(Written::Nothing(Vec::new())),
                (Fault::Lost(found), Some(error)) => {
                    let is_own = self.is_applied(&mut again, writes, &found, token).await;
                    return if is_own { Ok(Written::All) } else { Err(error) };
                }
                (Fault::Unknown(error), None) => {
                    unknown = Some(error.clone());
                    error
                }
                (Fault::Throttled(error), None) => error,
                // It may be its own first copy that is in the way.
                (Fault::Throttled(_) | Fault::Conflict, Some(error)) => {
                    unknown = Some(error.clone());
                    error
                }
                (Fault::Refused(error) | Fault::Late(error), None) => return Err(error),
                (_, Some(error)) => return Err(error),
            };
            // What may have been written is an unknown outcome, whatever DynamoDB says later.
            again.note(unknown.is_none());
            if !again.wait().await {
                return Err(error);
            }
        }
    }

    async fn send(&self, writes: &[Swap<'_>], token: &str) -> core::result::Result<(), Fault> {
        match writes {
            [write] => {
                let put = self.put(write, token).map_err(Fault::Refused)?;
                put.send().await.map(drop).map_err(Fault::of_put)
            }
            _ => {
                let mut transaction =
                    self.client.transact_write_items().client_request_token(token);
                for write in writes {
                    let put = self.transact_put(write, token).map_err(Fault::Refused)?;
                    transaction = transaction.transact_items(put);
                }
                let sent = transaction.send().await;
                sent.map(drop).map_err(|error| Fault::of_transaction(&error))
            }
        }
    }

    fn put(&self, write: &Swap<'_>, token: &str) -> Result<PutItemFluentBuilder> {
        let put = self.client.put_item().table_name(&self.name);
        let put = put.set_item(Some(item::item_of(write, token)?));
        let put = put
            .expression_attribute_names("#version", item::VERSION)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        Ok(match write.expect {
            None => put.condition_expression(IS_NEW),
            Some(version) => put
                .condition_expression(IS_UNCHANGED)
                .expression_attribute_values(":version", value_of(version)),
        })
    }

    fn transact_put(&self, write: &Swap<'_>, token: &str) -> Result<TransactWriteItem> {
        let put = Put::builder().table_name(&self.name);
        let put = put.set_item(Some(item::item_of(write, token)?));
        let put = put
            .expression_attribute_names("#version", item::VERSION)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let put = match write.expect {
            None => put.condition_expression(IS_NEW),
            Some(version) => put
                .condition_expression(IS_UNCHANGED)
                .expression_attribute_values(":version", value_of(version)),
        };
        let put = put.build().map_err(|_| Error::config("store", "the request cannot be made"))?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Whether what a repeated write found is its own first copy.
    async fn is_applied(
        &self,
        again: &mut Again,
        writes: &[Swap<'_>],
        found: &[(usize, Option<Item>)],
        token: &str,
    ) -> bool {
        let is_own = |item: &Item| {
            let version = item.get(item::VERSION).and_then(|version| version.as_s().ok());
            version.is_some_and(|version| version == token)
        };
        let Some((at, found)) = found.first() else {
            return false;
        };
        if let Some(item) = found {
            return is_own(item);
        }
        // Some servers do not say what they found.
        let Some(write) = writes.get(*at) else {
            return false;
        };
        let item = self.find_one(again, write.key).await;
        item.ok().flatten().as_ref().is_some_and(is_own)
    }
}

fn value_of(version: &Version) -> AttributeValue {
    AttributeValue::S(item::version_text(version))
}

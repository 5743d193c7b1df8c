//! Conditional writes: all or nothing, if no version has changed.
//!
//! One key is a conditional put, several keys are a transaction. The version that is written is
//! unique. A write without a response can therefore be repeated: if the first one was applied, the
//! condition of the second one fails, and the stored item has that version. If it can be neither
//! confirmed nor ruled out, the outcome stays unknown.

use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem,
};
use tollgate_core::store::cas::{Swap, Version};
use tollgate_core::{Error, Result};

use crate::error::{RequestError, invalid_request};
use crate::item::{self, Item};
use crate::retry::Attempts;
use crate::table::Table;

const IS_NEW: &str = "attribute_not_exists(#version)";
const IS_UNCHANGED: &str = "#version = :version";
/// A failed condition returns the stored item.
const FAILED_ITEM: ReturnValuesOnConditionCheckFailure =
    ReturnValuesOnConditionCheckFailure::AllOld;

/// The result of a swap.
#[derive(Debug)]
pub(crate) enum Written {
    /// All items were written.
    All,
    /// Nothing was written. The conditions of these writes failed, each with the stored item if the
    /// server returned it. Empty if another transaction was writing one of the keys.
    Nothing(Vec<(usize, Option<Item>)>),
}

impl Table {
    /// Writes all or nothing, with `version` as the new version.
    ///
    /// # Errors
    /// `queue_full` when the table is throttled; an outage when it is unknown whether anything was
    /// written.
    pub(crate) async fn write(&self, writes: &[Swap<'_>], version: &str) -> Result<Written> {
        let mut attempts = Attempts::within(self.timeout);
        // The error of the first attempt whose outcome is unknown.
        let mut unknown: Option<Error> = None;
        loop {
            let Err(failure) = attempts.run(Box::pin(self.send(writes, version))).await else {
                return Ok(Written::All);
            };
            let error = match (failure, unknown.take()) {
                (RequestError::ConditionFailed(found), None) => return Ok(Written::Nothing(found)),
                (RequestError::Conflict, None) => return Ok(Written::Nothing(Vec::new())),
                (RequestError::ConditionFailed(found), Some(error)) => {
                    let is_applied = self.is_applied(&mut attempts, writes, &found, version).await;
                    return if is_applied { Ok(Written::All) } else { Err(error) };
                }
                (RequestError::OutcomeUnknown(error), None) => {
                    unknown = Some(error.clone());
                    error
                }
                (RequestError::Throttled(error), None) => error,
                // The first attempt itself may still be under way.
                (RequestError::Throttled(_) | RequestError::Conflict, Some(error)) => {
                    unknown = Some(error.clone());
                    error
                }
                (RequestError::Rejected(error) | RequestError::TimedOut(error), None) => {
                    return Err(error);
                }
                (_, Some(error)) => return Err(error),
            };
            // A write whose outcome is unknown is not reported as throttled.
            attempts.record_throttled(unknown.is_none());
            if !attempts.wait().await {
                return Err(error);
            }
        }
    }

    async fn send(&self, writes: &[Swap<'_>], version: &str) -> Result<(), RequestError> {
        let client = self.client().await.map_err(RequestError::Rejected)?;
        match writes {
            [write] => {
                let put = self.put(write, version).map_err(RequestError::Rejected)?;
                let request = client
                    .put_item()
                    .table_name(put.table_name)
                    .set_item(Some(put.item))
                    .set_condition_expression(put.condition_expression)
                    .set_expression_attribute_names(put.expression_attribute_names)
                    .set_expression_attribute_values(put.expression_attribute_values)
                    .return_values_on_condition_check_failure(FAILED_ITEM);
                request.send().await.map(drop).map_err(RequestError::of_put)
            }
            _ => {
                let mut transaction = client.transact_write_items().client_request_token(version);
                for write in writes {
                    let put = self.put(write, version).map_err(RequestError::Rejected)?;
                    transaction =
                        transaction.transact_items(TransactWriteItem::builder().put(put).build());
                }
                let sent = transaction.send().await;
                sent.map(drop).map_err(|error| RequestError::of_transaction(&error))
            }
        }
    }

    fn put(&self, write: &Swap<'_>, version: &str) -> Result<Put> {
        let put = Put::builder()
            .table_name(&self.name)
            .set_item(Some(item::item_of(write, version)?))
            .expression_attribute_names("#version", item::VERSION)
            .return_values_on_condition_check_failure(FAILED_ITEM);
        let put = match write.expect {
            None => put.condition_expression(IS_NEW),
            Some(expected) => put
                .condition_expression(IS_UNCHANGED)
                .expression_attribute_values(":version", value_of(expected)),
        };
        put.build().map_err(|_| invalid_request())
    }

    /// Whether the item that made a repeated write fail was written by its first attempt.
    async fn is_applied(
        &self,
        attempts: &mut Attempts,
        writes: &[Swap<'_>],
        found: &[(usize, Option<Item>)],
        version: &str,
    ) -> bool {
        let is_own = |item: &Item| {
            let stored = item.get(item::VERSION).and_then(|stored| stored.as_s().ok());
            stored.is_some_and(|stored| stored == version)
        };
        let Some((index, found)) = found.first() else {
            return false;
        };
        if let Some(item) = found {
            return is_own(item);
        }
        // Some servers do not return the stored item.
        let Some(write) = writes.get(*index) else {
            return false;
        };
        let item = self.get_one(attempts, write.key).await;
        item.ok().flatten().as_ref().is_some_and(is_own)
    }
}

fn value_of(version: &Version) -> AttributeValue {
    AttributeValue::S(item::version_text(version))
}

//! Creates the table, and checks an existing one.

use core::time::Duration;
use std::error::Error as StdError;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
    TableDescription, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use tokio::time::{Instant, sleep};
use tollgate_core::{Code, Error, Result};

use crate::error::{RequestError, invalid_request};
use crate::item::{EXPIRES, KEY};

/// Bounds the wait for a new table, which usually takes seconds.
const ACTIVE_TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Creates the table if it is missing, and enables its time to live.
pub(crate) async fn migrate(client: &Client, table: &str) -> Result<()> {
    if describe(client, table).await?.is_none() {
        create(client, table).await?;
    }
    let description = until_active(client, table).await?;
    check(&description)?;
    if !removes_expired(client, table).await? {
        let specification =
            TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES);
        let specification = specification.build().map_err(|_| invalid_request())?;
        let update = client.update_time_to_live().table_name(table);
        let updated = update.time_to_live_specification(specification).send().await;
        // Another process may have enabled it.
        if let Err(error) = updated
            && !removes_expired(client, table).await?
        {
            return Err(error_of(&error));
        }
    }
    Ok(())
}

/// Warnings about a table that can be used.
pub(crate) async fn inspect(client: &Client, table: &str) -> Result<Vec<String>> {
    let missing = || Error::config("table", "does not exist; `tollgate migrate` creates it");
    let description = describe(client, table).await?.ok_or_else(missing)?;
    check(&description)?;
    let mut warnings = Vec::new();
    if !removes_expired(client, table).await? {
        warnings.push(format!(
            "the table never deletes expired items: enable its time to live on `{EXPIRES}` \
             (`tollgate migrate` does)"
        ));
    }
    Ok(warnings)
}

async fn create(client: &Client, table: &str) -> Result<()> {
    let key = AttributeDefinition::builder().attribute_name(KEY);
    let key = key.attribute_type(ScalarAttributeType::S).build().map_err(|_| invalid_request())?;
    let schema = KeySchemaElement::builder().attribute_name(KEY).key_type(KeyType::Hash);
    let create = client.create_table().table_name(table).attribute_definitions(key);
    let create = create.key_schema(schema.build().map_err(|_| invalid_request())?);
    let created = create.billing_mode(BillingMode::PayPerRequest).send().await;
    match created {
        Ok(_) => Ok(()),
        // Another process has created it.
        Err(error) if error.code() == Some("ResourceInUseException") => Ok(()),
        Err(error) => Err(error_of(&error)),
    }
}

async fn until_active(client: &Client, table: &str) -> Result<TableDescription> {
    let end = Instant::now() + ACTIVE_TIMEOUT;
    loop {
        if let Some(description) = describe(client, table).await?
            && matches!(
                description.table_status(),
                Some(TableStatus::Active | TableStatus::Updating)
            )
        {
            return Ok(description);
        }
        if Instant::now() >= end {
            let message = format!("the table is not active after {} s", ACTIVE_TIMEOUT.as_secs());
            return Err(Error::new(Code::Timeout, message));
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn describe(client: &Client, table: &str) -> Result<Option<TableDescription>> {
    match client.describe_table().table_name(table).send().await {
        Ok(output) => Ok(output.table),
        Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
        Err(error) => Err(error_of(&error)),
    }
}

/// Checks the primary key of the table.
fn check(description: &TableDescription) -> Result<()> {
    let is_key = matches!(
        description.key_schema(),
        [key] if key.attribute_name() == KEY && *key.key_type() == KeyType::Hash
    );
    let is_text = description.attribute_definitions().iter().any(|attribute| {
        attribute.attribute_name() == KEY && *attribute.attribute_type() == ScalarAttributeType::S
    });
    if is_key && is_text {
        return Ok(());
    }
    let message =
        format!("has another key schema; accepted: the string `{KEY}` as the whole primary key");
    Err(Error::config("table", message))
}

/// Whether the time to live is enabled.
///
/// # Errors
/// `config_invalid` when it is enabled on another attribute: that may delete items that still
/// count.
async fn removes_expired(client: &Client, table: &str) -> Result<bool> {
    let output = client.describe_time_to_live().table_name(table).send().await;
    let output = output.map_err(|error| error_of(&error))?;
    let Some(description) = output.time_to_live_description() else {
        return Ok(false);
    };
    let is_on = matches!(
        description.time_to_live_status(),
        Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
    );
    if is_on && description.attribute_name() != Some(EXPIRES) {
        let message = format!("has its time to live on another attribute than `{EXPIRES}`");
        return Err(Error::config("table", message));
    }
    Ok(is_on)
}

fn error_of<E>(error: &SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    RequestError::of(error).into_error()
}

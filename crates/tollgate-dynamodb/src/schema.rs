//! The table: how it is made, and whether one that exists will do.

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

use crate::fault::Fault;
use crate::item::{EXPIRES, KEY};

/// How long a new table may take; usually it is seconds.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(500);

/// Makes the table if it is missing, and switches the removal of expired items on.
pub(crate) async fn migrate(client: &Client, table: &str) -> Result<()> {
    if describe(client, table).await?.is_none() {
        create(client, table).await?;
    }
    let description = until_active(client, table).await?;
    check(&description)?;
    if !removes_expired(client, table).await? {
        let specification =
            TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES);
        let specification = specification.build().map_err(|_| unmade())?;
        let update = client.update_time_to_live().table_name(table);
        let updated = update.time_to_live_specification(specification).send().await;
        // Somebody else may have done it at this moment.
        if let Err(error) = updated
            && !removes_expired(client, table).await?
        {
            return Err(error_of(&error));
        }
    }
    Ok(())
}

/// What is unwise about a table that will do.
pub(crate) async fn inspect(client: &Client, table: &str) -> Result<Vec<String>> {
    let missing = || Error::config("table", "does not exist; `tollgate migrate` makes it");
    let description = describe(client, table).await?.ok_or_else(missing)?;
    check(&description)?;
    let mut warnings = Vec::new();
    if !removes_expired(client, table).await? {
        warnings.push(format!(
            "the table keeps what has expired for ever: switch its time to live on for `{EXPIRES}` \
             (`tollgate migrate` does)"
        ));
    }
    Ok(warnings)
}

async fn create(client: &Client, table: &str) -> Result<()> {
    let key = AttributeDefinition::builder().attribute_name(KEY);
    let key = key.attribute_type(ScalarAttributeType::S).build().map_err(|_| unmade())?;
    let schema = KeySchemaElement::builder().attribute_name(KEY).key_type(KeyType::Hash);
    let create = client.create_table().table_name(table).attribute_definitions(key);
    let create = create.key_schema(schema.build().map_err(|_| unmade())?);
    let created = create.billing_mode(BillingMode::PayPerRequest).send().await;
    match created {
        Ok(_) => Ok(()),
        // Somebody else made it at this moment.
        Err(error) if error.code() == Some("ResourceInUseException") => Ok(()),
        Err(error) => Err(error_of(&error)),
    }
}

async fn until_active(client: &Client, table: &str) -> Result<TableDescription> {
    let end = Instant::now() + PATIENCE;
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
            let message = format!("the table is not there after {} s", PATIENCE.as_secs());
            return Err(Error::new(Code::Timeout, message));
        }
        sleep(PAUSE).await;
    }
}

async fn describe(client: &Client, table: &str) -> Result<Option<TableDescription>> {
    match client.describe_table().table_name(table).send().await {
        Ok(output) => Ok(output.table),
        Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
        Err(error) => Err(error_of(&error)),
    }
}

/// Whether the primary key is the one that items here have.
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
    let message = format!(
        "exists and is another kind of table; accepted: one whose primary key is the text `{KEY}` alone"
    );
    Err(Error::config("table", message))
}

/// Whether expired items are removed.
///
/// # Errors
/// `config_invalid` when they are removed by another attribute: that may remove what still counts.
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
        let message = format!("removes items by another attribute than `{EXPIRES}`");
        return Err(Error::config("table", message));
    }
    Ok(is_on)
}

fn error_of<E>(error: &SdkError<E>) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    match Fault::of(error) {
        Fault::Throttled(error)
        | Fault::Unknown(error)
        | Fault::Late(error)
        | Fault::Refused(error) => error,
        Fault::Lost(_) | Fault::Conflict => Fault::contended(),
    }
}

fn unmade() -> Error {
    Error::config("store", "the request cannot be made")
}

//! The object that Workers call: it receives messages, and its store decides.

use worker::{Request, Response, State};

use super::panics;
use super::storage::Row;
use super::store::{Elsewhere, ObjectStore};
use super::wire::{
    Call, Outcome, Reply, SentAdmission, SentError, SentSwap, from_text, time_source, to_text,
};
use tollgate_core::store::{CallContext, Evidence};
use tollgate_core::{Admission, Charge, Limit, Micros, Result};

/// What a Durable Object of limits does. [`limits_object!`](crate::limits_object) makes a class of
/// it.
#[derive(Debug)]
pub struct LimitsObject {
    store: ObjectStore,
}

impl From<ObjectStore> for LimitsObject {
    fn from(store: ObjectStore) -> Self {
        Self { store }
    }
}

impl LimitsObject {
    /// An object of a class of `new_sqlite_classes`.
    #[must_use]
    pub fn sqlite(state: &State) -> Self {
        ObjectStore::sqlite(state).into()
    }

    /// An object of any class, over its key-value storage.
    #[must_use]
    pub fn key_value(state: &State) -> Self {
        ObjectStore::key_value(state).into()
    }

    /// Answers a message of a Worker.
    ///
    /// # Errors
    /// When the response cannot be made.
    pub async fn fetch(&self, request: Request) -> worker::Result<Response> {
        panics::run_in_time(&self.store.object, self.respond(request)).await
    }

    async fn respond(&self, mut request: Request) -> worker::Result<Response> {
        let text = request.text().await?;
        let reply = match from_text(&text) {
            Ok(call) => self.answer(call).await,
            Err(error) => Err(error),
        };
        let reply = reply.unwrap_or_else(|error| Reply::Failed(SentError::of(&error)));
        let text = to_text(&reply).map_err(|error| worker::Error::from(error.to_string()))?;
        Response::ok(text)
    }

    /// Reclaims storage.
    ///
    /// # Errors
    /// When the storage fails: the runtime repeats the alarm later.
    pub async fn alarm(&self) -> worker::Result<Response> {
        let swept = panics::run_in_time(&self.store.object, self.store.alarm()).await;
        swept.map_err(|error| worker::Error::from(error.to_string()))?;
        Response::ok("")
    }

    async fn answer(&self, call: Call) -> Result<Reply> {
        Ok(match call {
            Call::Admit { at, admissions } => Reply::Admitted(self.admit(&admissions, at).await?),
            Call::Read { names } => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let (clock, values) = self.store.read(&names).await?;
                Reply::Values { clock, values }
            }
            Call::Swap { writes } => {
                let rows: Vec<_> = writes.iter().map(row_of).collect();
                Reply::Swapped(self.store.swap(&rows).await?)
            }
            Call::Reset { name } => {
                self.store.forget(&name).await?;
                Reply::Done
            }
        })
    }

    async fn admit(&self, sent: &[SentAdmission], at: Option<Micros>) -> Result<Vec<Outcome>> {
        let limits: Vec<Vec<Limit>> =
            sent.iter().map(SentAdmission::limits).collect::<Result<_>>()?;
        let charges = sent.iter().zip(&limits).map(|(sent, limits)| sent.charges(limits));
        let charges: Vec<Vec<Charge<'_>>> = charges.collect::<Result<_>>()?;
        let admissions = sent.iter().zip(&charges).map(|(sent, charges)| sent.admission(charges));
        let admissions: Vec<Admission<'_>> = admissions.collect::<Result<_>>()?;
        let elsewhere = elsewhere(sent, &charges);
        let time = time_source(at);
        let items: Vec<_> = admissions.iter().map(|admission| (*admission, time)).collect();
        let outcomes = self.store.decide(&items, &elsewhere, CallContext::new(time)).await?;
        Ok(outcomes.iter().map(|outcome: &Result<Evidence>| Outcome::of(outcome)).collect())
    }
}

/// The values of keys that other objects have charged.
fn elsewhere(sent: &[SentAdmission], charges: &[Vec<Charge<'_>>]) -> Elsewhere {
    let pairs =
        sent.iter().zip(charges).flat_map(|(sent, charges)| sent.charges.iter().zip(charges));
    let known = pairs.filter_map(|(sent, charge)| {
        let before = sent.elsewhere.as_ref()?;
        let value = Some(before.clone()).filter(|text| !text.is_empty());
        Some((charge.key().to_text(), value))
    });
    known.collect()
}

fn row_of(sent: &SentSwap) -> (Row<'_>, Option<&str>) {
    let row = Row { name: &sent.name, value: &sent.value, keep_until: sent.keep_until };
    (row, sent.expect.as_deref())
}

//! What policies ask of the store.

use tollgate_core::store::WhenIdsFull;
use tollgate_core::{Error, Limit, Result};

use super::Policies;

impl Policies {
    /// Refuses policies that bound their request ids, for a store that cannot
    /// ([`Capability::bounded_ids`](tollgate_core::store::Capability::bounded_ids)).
    ///
    /// # Errors
    /// `config_invalid` naming the setting of the first such policy.
    pub fn refuse_bounds_on_ids(&self) -> Result<()> {
        for policy in self.iter() {
            for bounds in policy.limits().map(Limit::bounds) {
                let setting = match (bounds.max_request_ids_if_set(), bounds.when_ids_full_if_set())
                {
                    (Some(_), _) => "max",
                    (None, Some(WhenIdsFull::Refuse)) => "when_full",
                    // To forget the oldest is the default, where there is a bound.
                    (None, _) => continue,
                };
                let field = format!("policies.{}.request_ids.{setting}", policy.name());
                let message = "this store cannot bound how many request ids it keeps: they expire; \
                               set `keep` alone, here and at the top of the file, or choose \
                               another store";
                return Err(Error::config("policies", message).with_field(field));
            }
        }
        Ok(())
    }
}

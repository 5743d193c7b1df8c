//! Numbers the nodes of a cluster, so that the limiter keeps a breaker for each.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tollgate_core::store::Endpoint;

use crate::client::host::Host;

/// More nodes than Redis recommends for a cluster. Hosts come and go: when all numbers are taken,
/// numbering starts over, and two nodes may share a breaker.
const NUMBERS: u16 = 1_000;

/// The numbers of hosts, from 1 on: 0 is for calls whose node is not known.
#[derive(Debug, Default)]
pub(super) struct Numbers(Mutex<HashMap<Host, u16>>);

impl Numbers {
    /// The number of a host: the same each time.
    pub(super) fn of(&self, host: &Host) -> Endpoint {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(host) {
            return Endpoint::numbered(*number);
        }
        if numbers.len() >= usize::from(NUMBERS) {
            numbers.clear();
        }
        let number = u16::try_from(numbers.len()).unwrap_or(NUMBERS) + 1;
        numbers.insert(host.clone(), number);
        Endpoint::numbered(number)
    }
}

//! Settles charges when the body of the response has ended, however it ends.
//!
//! The guard of a request settles when it is dropped. It is made before the service is called, and
//! moves into the body of the response, which drops it after its last frame, at an error, or when
//! the server drops the body because the client has disconnected. So it settles exactly once.

use core::task::{Context, Waker};
use std::sync::Arc;

use http::Extensions;
use tokio::runtime::Handle;
use tollgate::{Code, Error};

use super::{Admitted, Enforcer, Granted};
use crate::decide::Decide;
use crate::event::Event;
use crate::refusal::BodyGuard;
use crate::usage::Usage;

impl<D: Decide> Enforcer<D> {
    /// Puts a count of the units that are used into a request, if a limit settles for it. A layer
    /// around this one may have done so.
    #[inline]
    pub(crate) fn count_usage(&self, extensions: &mut Extensions) {
        if self.settles_at_end {
            extensions.get_or_insert_default::<Usage>();
        }
    }

    /// What settles an admitted request at the end of its response, if a limit does.
    pub(crate) fn guard(
        self: &Arc<Self>,
        admitted: &Admitted,
        extensions: &Extensions,
    ) -> Option<BodyGuard> {
        let Admitted::Granted(granted) = admitted else { return None };
        if !self.settles_at_end {
            return None;
        }
        let (enforcer, granted) = (Arc::clone(self), Arc::clone(granted));
        let usage = extensions.get::<Usage>()?.clone();
        let runtime = Handle::try_current().ok();
        Some(BodyGuard::new(SettleOnDrop { enforcer, granted, usage, runtime }))
    }

    /// The units used under each limit that settles at the end.
    fn used_at_end(&self, granted: &Granted, units: u64) -> Vec<Option<u64>> {
        let charges = granted.charges.as_slice().iter();
        let of = |index: usize| self.rules.get(index).is_some_and(|rule| rule.settles_at_end);
        charges.map(|charge| of(charge.index).then_some(units)).collect()
    }
}

/// Settles when it is dropped.
struct SettleOnDrop<D: Decide> {
    enforcer: Arc<Enforcer<D>>,
    granted: Arc<Granted>,
    usage: Usage,
    /// Where the settlement goes on if it has to wait: the runtime that serves the request.
    runtime: Option<Handle>,
}

impl<D: Decide> Drop for SettleOnDrop<D> {
    fn drop(&mut self) {
        // Nothing is known: the charge stays.
        let Some(units) = self.usage.units() else { return };
        let (enforcer, granted) = (Arc::clone(&self.enforcer), Arc::clone(&self.granted));
        let mut settle = Box::pin(async move {
            let used = enforcer.used_at_end(&granted, units);
            enforcer.settle(&granted, used).await;
        });
        let _entered = self.runtime.as_ref().map(Handle::enter);
        // A store that never waits has settled before the body is gone.
        let polled = settle.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match &self.runtime {
            _ if polled.is_ready() => {}
            Some(runtime) => drop(runtime.spawn(settle)),
            None => {
                let message = "settling waits, and no runtime of tokio serves the request";
                self.enforcer.emit(&Event::Unsettled(&Error::new(Code::Unsupported, message)));
            }
        }
    }
}

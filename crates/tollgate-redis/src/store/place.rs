//! Where keys are: which of them may share a call.

use std::sync::Arc;

use super::wire::Wire;
use crate::layout::KeyLayout;
use crate::meaning::is_foreign;
use crate::slot::slot_of;
use crate::transport::{Districts, Reply, Transport};

/// Keys of one place may share a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// One server holds all keys.
    Anywhere,
    Slot(u16),
    /// Of a cluster whose node lets keys of several slots share a call.
    District(u16),
}

/// Where everything is, at one moment.
#[derive(Clone, Debug)]
pub(super) struct Whereabouts {
    has_slots: bool,
    layout: KeyLayout,
    districts: Option<Arc<Districts>>,
}

impl<T: Transport> Wire<T> {
    pub(super) fn whereabouts(&self) -> Whereabouts {
        let has_slots = self.has_slots();
        // Where prefixes decide, a key of another node has a name that callers may not be allowed to know.
        let is_spread = has_slots && self.layout == KeyLayout::BySubject;
        let districts = if is_spread { self.transport.districts() } else { None };
        Whereabouts { has_slots, layout: self.layout, districts }
    }
}

impl Whereabouts {
    /// One server holds all keys.
    #[cfg(test)]
    pub(super) const fn anywhere() -> Self {
        Self { has_slots: false, layout: KeyLayout::BySubject, districts: None }
    }

    /// Where a name is.
    pub(super) fn of(&self, name: &str) -> Place {
        if self.has_slots { self.of_slot(slot_of(name.as_bytes())) } else { Place::Anywhere }
    }

    /// Where the names of a slot are.
    pub(super) fn of_slot(&self, slot: u16) -> Place {
        let district = self.districts.as_ref().and_then(|districts| districts.of(slot));
        district.map_or(Place::Slot(slot), Place::District)
    }

    /// What has to be shown before names like this one share a call in a place.
    pub(super) fn proof(&self, place: Place, name: &str) -> Option<Proof> {
        let (Place::District(district), Some(districts)) = (place, &self.districts) else {
            return None;
        };
        let tag = districts.stranger(district);
        let stranger = tag.and_then(|tag| self.layout.beside(name, tag)).unwrap_or_default();
        Some(Proof { districts: districts.clone(), district, stranger })
    }
}

/// That a node refuses keys of other nodes.
#[derive(Debug)]
pub(super) struct Proof {
    districts: Arc<Districts>,
    district: u16,
    /// The name of such a key; empty if the node has refused one before.
    pub(super) stranger: String,
}

impl Proof {
    /// Finds in a reply what the node has done with the stranger, if there was one.
    pub(super) fn read(&self, reply: &Reply) {
        let has_refused = match reply {
            Reply::Error(text) if is_foreign(text) => false,
            Reply::Error(_) => return,
            _ => true,
        };
        if !self.stranger.is_empty() {
            self.districts.tell(self.district, has_refused);
        }
    }
}

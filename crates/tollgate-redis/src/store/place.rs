//! Where keys are: which of them may share a call.

use std::sync::Arc;

use super::wire::Wire;
use crate::layout::KeyLayout;
use crate::slot::slot_of;
use crate::transport::{Districts, Transport};

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
    /// Where everything is now.
    pub(super) fn whereabouts(&self) -> Whereabouts {
        let has_slots = self.has_slots();
        // Where prefixes decide, a key of another node has a name that callers may not be allowed to know.
        let is_spread = has_slots && self.layout == KeyLayout::BySubject;
        let districts = if is_spread { self.transport.districts() } else { None };
        Whereabouts { has_slots, layout: self.layout, districts }
    }
}

impl Whereabouts {
    /// One server holds all keys, or there is only one.
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

    /// The name of a key beside this one that the node of a place has to refuse before keys of several slots
    /// share a call there: empty if it has refused one before. `None` where keys share calls in other ways.
    pub(super) fn stranger(&self, place: Place, name: &str) -> Option<String> {
        let (Place::District(district), Some(districts)) = (place, &self.districts) else {
            return None;
        };
        let tag = districts.stranger(district);
        Some(tag.and_then(|tag| self.layout.beside(name, tag)).unwrap_or_default())
    }
}

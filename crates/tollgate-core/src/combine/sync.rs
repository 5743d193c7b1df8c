//! What the combiner synchronizes with: the primitives of the standard library. The tests compile
//! the files of the combiner a second time, with those of a model checker (`tests/model`).

pub(super) use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
pub(super) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};

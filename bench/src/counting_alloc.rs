//! The system's allocator, with counters that are off unless a measurement enables them.
//!
//! The only unsafe code of the benchmark. While timing, the count is off, and a contender that
//! allocates pays one predictable branch for it.

#![expect(unsafe_code, reason = "a global allocator cannot be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

static ON: AtomicBool = AtomicBool::new(false);
static CALLS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, counted.
#[derive(Debug)]
pub(crate) struct Counting;

/// What happened on the heap while something ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heap {
    /// Allocations and reallocations.
    pub(crate) calls: u64,
    /// Bytes allocated and not freed.
    pub(crate) live_bytes: i64,
}

/// Runs `work` and counts its heap operations. One caller at a time.
pub(crate) fn count<T>(work: impl FnOnce() -> T) -> (T, Heap) {
    CALLS.store(0, Relaxed);
    LIVE_BYTES.store(0, Relaxed);
    ON.store(true, Relaxed);
    let result = work();
    ON.store(false, Relaxed);
    let heap = Heap { calls: CALLS.load(Relaxed), live_bytes: LIVE_BYTES.load(Relaxed) };
    (result, heap)
}

fn note(calls: u64, bytes: i64) {
    if ON.load(Relaxed) {
        CALLS.fetch_add(calls, Relaxed);
        LIVE_BYTES.fetch_add(bytes, Relaxed);
    }
}

/// A size as a signed number; a `Layout` never exceeds `isize::MAX`.
fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is passed on unchanged to `System`, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(1, signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(1, signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(1, signed(new_size) - signed(layout.size()));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        note(0, -signed(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) }
    }
}

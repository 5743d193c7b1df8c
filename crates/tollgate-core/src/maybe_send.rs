//! `Send` where threads exist, nothing where they do not.
//!
//! A store inside a Worker holds values that are not `Send`; a server needs futures that are. The
//! switch is the target, never a feature, so that no crate in a build can change another's bounds.

use core::future::Future;
use core::pin::Pin;

#[cfg(not(target_arch = "wasm32"))]
mod bounds {
    /// `Send` on targets with threads, no bound on wasm32.
    pub trait MaybeSend: Send {}
    impl<T: Send + ?Sized> MaybeSend for T {}
    /// `Sync` on targets with threads, no bound on wasm32.
    pub trait MaybeSync: Sync {}
    impl<T: Sync + ?Sized> MaybeSync for T {}
}

#[cfg(target_arch = "wasm32")]
mod bounds {
    /// `Send` on targets with threads, no bound on wasm32.
    pub trait MaybeSend {}
    impl<T: ?Sized> MaybeSend for T {}
    /// `Sync` on targets with threads, no bound on wasm32.
    pub trait MaybeSync {}
    impl<T: ?Sized> MaybeSync for T {}
}

pub use bounds::{MaybeSend, MaybeSync};

/// A boxed future, `Send` on targets with threads.
#[cfg(not(target_arch = "wasm32"))]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A boxed future, `Send` on targets with threads.
#[cfg(target_arch = "wasm32")]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

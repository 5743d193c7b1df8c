//! The authenticated user, from what an outer layer left in the extensions of the request.

use core::fmt;
use core::marker::PhantomData;

use super::{Extract, Unkeyed};
use crate::head::Head;
use crate::subject::Subject;

/// The user that an authentication layer has put into the extensions of the request.
pub struct User<T, F> {
    name: F,
    of: PhantomData<fn(&T)>,
}

impl<T, F> User<T, F>
where
    T: Send + Sync + 'static,
    F: for<'a> Fn(&'a T) -> &'a str + Send + Sync,
{
    /// The user in the extension of type `T`, called as `name` says. Missing where no layer has
    /// put one there: combine with [`Extract::or`] for requests of nobody.
    pub fn new(name: F) -> Self {
        Self { name, of: PhantomData }
    }
}

impl<T, F> Extract for User<T, F>
where
    T: Send + Sync + 'static,
    F: for<'a> Fn(&'a T) -> &'a str + Send + Sync,
{
    fn extract(&self, head: &Head<'_>, subject: &mut Subject) -> Result<(), Unkeyed> {
        let missing = || Unkeyed::missing("user", "an authenticated request");
        let user = head.extensions.get::<T>().ok_or_else(missing)?;
        subject.push("user=");
        subject.push((self.name)(user));
        Ok(())
    }
}

impl<T, F: Clone> Clone for User<T, F> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), of: PhantomData }
    }
}

impl<T, F> fmt::Debug for User<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("User")
    }
}

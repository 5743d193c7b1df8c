//! The authenticated user, from the extensions of the request.

use core::fmt;
use core::marker::PhantomData;

use super::{Extract, ExtractError, ExtractResult};
use crate::request_parts::RequestParts;
use crate::subject::Subject;

/// The user that an authentication layer added to the extensions of the request.
///
/// ```
/// use tollgate_tower::extract::User;
///
/// #[derive(Clone)]
/// struct Account {
///     name: String,
/// }
///
/// let user = User::new(|account: &Account| account.name.as_str());
/// # let _: &dyn tollgate_tower::extract::Extract = &user;
/// ```
pub struct User<T, F> {
    name: F,
    of: PhantomData<fn(&T)>,
}

impl<T, F> User<T, F>
where
    T: Send + Sync + 'static,
    F: for<'a> Fn(&'a T) -> &'a str + Send + Sync,
{
    /// The name of the user in the extension of type `T`. Missing when no layer added one: combine
    /// with [`Extract::or`] for anonymous requests.
    pub fn new(name: F) -> Self {
        Self { name, of: PhantomData }
    }
}

impl<T, F> Extract for User<T, F>
where
    T: Send + Sync + 'static,
    F: for<'a> Fn(&'a T) -> &'a str + Send + Sync,
{
    fn extract(&self, request: &RequestParts<'_>, subject: &mut Subject) -> ExtractResult {
        let missing = || ExtractError::missing("user", "an authenticated request");
        let user = request.extensions.get::<T>().ok_or_else(missing)?;
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

//! What a client may do: as a caller or an administrator, and under which policies.

use std::sync::Arc;

use tollgate_core::{Code, Error, Result};

/// What a token allows. Administrators may do what callers may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May request decisions, and give back what it has receipts for.
    Caller,
    /// May also give back without a receipt, and reset keys.
    Admin,
}

/// The policies that a client may use: every one, or some by their names.
///
/// The answer to a client that names another one is the same whether there is such a policy or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(Option<Arc<[Box<str>]>>);

impl Scope {
    /// Every policy, also those of later configurations.
    pub const ALL: Self = Self(None);

    /// These policies.
    #[must_use]
    pub fn of<'a>(policies: impl IntoIterator<Item = &'a str>) -> Self {
        Self(Some(policies.into_iter().map(Box::from).collect()))
    }

    /// Whether it has every policy.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it has a policy.
    #[must_use]
    pub fn has(&self, policy: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.iter().any(|name| **name == *policy))
    }

    /// The names of its policies; none if it has every one.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|names| names.iter().map(|name| &**name))
    }

    /// Accepts a policy that it has.
    ///
    /// # Errors
    /// `forbidden` naming `policy`.
    pub fn permit(&self, policy: &str) -> Result<()> {
        if self.has(policy) {
            return Ok(());
        }
        let message = "is not one that this token is for; accepted: a policy of the token";
        Err(Error::new(Code::Forbidden, message).with_field("policy"))
    }

    /// Accepts what shows every policy.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn permit_all(&self) -> Result<()> {
        if self.is_all() {
            return Ok(());
        }
        let message = "shows every policy, and this token is for some; accepted: a token without \
                       policies";
        Err(Error::new(Code::Forbidden, message))
    }
}

/// What a client may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Its role.
    pub role: Role,
    /// The policies for which it has that role.
    pub policies: Scope,
    /// Whether it has proved who it is, as far as that is possible: what it lacks is forbidden.
    /// Without that, it may lack a token.
    pub is_known: bool,
}

impl Rights {
    /// A role under every policy.
    #[must_use]
    pub const fn of(role: Role) -> Self {
        Self { role, policies: Scope::ALL, is_known: true }
    }

    /// No policy at all: for a request of which nothing is known.
    #[must_use]
    pub fn none() -> Self {
        Self { role: Role::Caller, policies: Scope::of([]), is_known: false }
    }

    /// The error of a client that lacks a right: `forbidden`, or `unauthorized` where a token could
    /// give it.
    #[must_use]
    pub fn lacks(&self, message: &'static str) -> Error {
        let code = if self.is_known { Code::Forbidden } else { Code::Unauthorized };
        Error::new(code, message)
    }

    /// Accepts a role.
    ///
    /// # Errors
    /// `forbidden`, or `unauthorized` where a token could give it.
    pub fn permit(&self, needed: Role) -> Result<()> {
        if self.role >= needed { Ok(()) } else { Err(self.lacks(needs(needed))) }
    }
}

/// The message for a client without a role.
pub(super) const fn needs(role: Role) -> &'static str {
    match role {
        Role::Caller => "needs a token: Authorization: Bearer …",
        Role::Admin => "needs the token of an administrator",
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Rights, Role, Scope};

    #[test]
    fn a_scope_has_its_policies_and_the_answer_for_others_is_one() {
        let scope = Scope::of(["api", "login"]);
        assert!(scope.permit("api").is_ok() && scope.permit("login").is_ok());
        let refused = ["ap", "apis", "API", "", "cl.throttle"].map(|policy| {
            let error = scope.permit(policy).unwrap_err();
            (error.code(), error.field().map(str::to_owned), error.message().to_owned())
        });
        assert!(refused.iter().all(|one| *one == refused[0]), "{refused:?}");
        assert_eq!((refused[0].0, refused[0].1.as_deref()), (Code::Forbidden, Some("policy")));
        assert!(Scope::ALL.permit("any").is_ok() && Scope::ALL.permit_all().is_ok());
        assert_eq!(scope.permit_all().unwrap_err().code(), Code::Forbidden);
        assert!(Rights::none().policies.permit("").is_err());
    }

    #[test]
    fn what_a_token_could_give_is_unauthorized() {
        let code = |is_known| {
            let rights = Rights { is_known, ..Rights::of(Role::Caller) };
            rights.permit(Role::Admin).unwrap_err().code()
        };
        assert_eq!((code(true), code(false)), (Code::Forbidden, Code::Unauthorized));
    }
}

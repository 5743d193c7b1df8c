//! Tokens of callers and administrators.
//!
//! Only SHA-256 hashes of tokens are kept, and each of them is compared in constant time: the time
//! of a comparison reveals nothing about a token. No `Debug` shows one.

use std::fmt;

use hmac::digest::{CtOutput, Digest};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::Sha256;
use tollgate_core::{Code, Error, Result};

/// What a token allows. Administrators may do what callers may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May request decisions, and give back what it has receipts for.
    Caller,
    /// May also give back without a receipt, and reset keys.
    Admin,
}

/// The tokens of a service.
///
/// Without any token, every client has every right: for services that only this machine reaches.
/// With tokens of callers, a decision needs one, and a reset needs one of an administrator.
#[derive(Clone, Default)]
pub struct Auth {
    tokens: Vec<(TokenHash, Role)>,
    /// Whether clients are callers when there is no token.
    only_callers: bool,
}

/// The hash of a token; `==` takes constant time.
type TokenHash = CtOutput<Sha256>;

impl Auth {
    /// Tokens of callers and of administrators.
    #[must_use]
    pub fn new<'a>(
        callers: impl IntoIterator<Item = &'a str>,
        admins: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let with = |role| move |token: &'a str| (hash(token), role);
        let callers = callers.into_iter().map(with(Role::Caller));
        let tokens = callers.chain(admins.into_iter().map(with(Role::Admin))).collect();
        Self { tokens, only_callers: false }
    }

    /// Clients without a token are callers at most, also where there is no token at all: for
    /// services that authenticate callers by other means, such as certificates.
    #[must_use]
    pub const fn only_callers(mut self) -> Self {
        self.only_callers = true;
        self
    }

    /// Whether callers need a token.
    #[must_use]
    pub fn guards_callers(&self) -> bool {
        self.tokens.iter().any(|(_, role)| *role == Role::Caller)
    }

    /// What a client with this token, or with none, may do.
    #[must_use]
    pub fn role_of(&self, token: Option<&str>) -> Option<Role> {
        let without_token = match (self.tokens.is_empty(), self.guards_callers()) {
            (true, _) if !self.only_callers => Some(Role::Admin),
            (_, false) => Some(Role::Caller),
            (_, true) => None,
        };
        without_token.max(self.role_by(token))
    }

    /// Whether there is any token.
    #[must_use]
    pub const fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// What a token allows by itself, if it is known.
    #[must_use]
    pub fn role_by(&self, token: Option<&str>) -> Option<Role> {
        let token = hash(token.filter(|_| !self.tokens.is_empty())?);
        // Every hash is compared, so that the time does not depend on which one matches.
        let matching = |(hash, role): &(TokenHash, Role)| (*hash == token).then_some(*role);
        self.tokens.iter().map(matching).fold(None, Option::max)
    }

    /// Accepts clients that have the rights of `needed`; what they may do.
    ///
    /// # Errors
    /// `unauthorized` without a token or with an unknown one; `forbidden` when a client that is
    /// known lacks the right.
    pub fn permit(&self, token: Option<&str>, needed: Role) -> Result<Role> {
        if let Some(role) = self.role_of(token).filter(|role| *role >= needed) {
            return Ok(role);
        }
        let message = match needed {
            Role::Caller => "needs a token: Authorization: Bearer …",
            Role::Admin => "needs the token of an administrator",
        };
        let is_known = self.tokens.is_empty() || self.role_by(token).is_some();
        let code = if is_known { Code::Forbidden } else { Code::Unauthorized };
        Err(Error::new(code, message))
    }
}

fn hash(token: &str) -> TokenHash {
    CtOutput::new(Sha256::digest(token))
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

/// The token of an `Authorization: Bearer` header.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use tollgate_core::Code;

    use super::{Auth, Role};

    #[test]
    fn a_token_grants_the_rights_of_its_role_and_no_others() {
        let auth = |callers: &[&'static str], admins: &[&'static str]| {
            Auth::new(callers.iter().copied(), admins.iter().copied())
        };
        assert_eq!(auth(&[], &[]).role_of(None), Some(Role::Admin));
        assert_eq!(auth(&[], &["a"]).role_of(None), Some(Role::Caller));
        assert_eq!(auth(&[], &["a"]).role_of(Some("a")), Some(Role::Admin));
        let both = auth(&["c", "d"], &["a"]);
        let roles = [None, Some(""), Some("c"), Some("d"), Some("a"), Some("cc")];
        let (caller, admin) = (Some(Role::Caller), Some(Role::Admin));
        assert_eq!(
            roles.map(|token| both.role_of(token)),
            [None, None, caller, caller, admin, None]
        );
    }

    #[test]
    fn a_client_that_is_known_is_forbidden_and_others_are_unauthorized() {
        let refused = |auth: &Auth, token| auth.permit(token, Role::Admin).unwrap_err().code();
        let both = Auth::new(["c"], ["a"]);
        assert_eq!(refused(&both, None), Code::Unauthorized);
        assert_eq!(refused(&both, Some("x")), Code::Unauthorized);
        assert_eq!(refused(&both, Some("c")), Code::Forbidden);
        let admins = Auth::new([], ["a"]).only_callers();
        assert_eq!(refused(&admins, None), Code::Unauthorized);
        assert!(admins.permit(Some("a"), Role::Admin).is_ok());
        let certificates = Auth::default().only_callers();
        assert_eq!(certificates.role_of(None), Some(Role::Caller));
        assert_eq!(refused(&certificates, None), Code::Forbidden);
        assert_eq!(refused(&certificates, Some("x")), Code::Forbidden);
    }
}

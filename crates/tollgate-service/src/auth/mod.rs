//! Tokens of callers and administrators.
//!
//! Only SHA-256 hashes of tokens are kept, and each of them is compared in constant time: the time
//! of a comparison reveals nothing about a token. No `Debug` shows one.

mod rights;
mod site;
mod tokens;

use std::fmt;

use hmac::digest::{CtOutput, Digest};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::Sha256;
use tollgate_core::Result;

use self::rights::needs;

pub use rights::{Rights, Role, Scope};
pub(crate) use site::SEC_FETCH_SITE;
pub use tokens::{TOKEN_MIN_BYTES, Token, validate_tokens};

/// The tokens of a service.
///
/// Without any token, every client has every right: for services that only this machine reaches.
/// With tokens of callers, a decision needs one, and a reset needs one of an administrator. A token
/// may be for some policies alone.
#[derive(Clone, Default)]
pub struct Auth {
    tokens: Vec<(TokenHash, Role, Scope)>,
    /// Whether clients are callers when there is no token.
    only_callers: bool,
}

/// The hash of a token; `==` takes constant time. `Debug` omits it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenHash(CtOutput<Sha256>);

impl TokenHash {
    /// The hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(CtOutput::new(Sha256::digest(token)))
    }
}

impl Auth {
    /// Tokens of callers and of administrators, for every policy.
    #[must_use]
    pub fn new<'a>(
        callers: impl IntoIterator<Item = &'a str>,
        admins: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self::of_tokens(callers.into_iter().map(Token::new), admins.into_iter().map(Token::new))
    }

    /// Tokens of callers and of administrators, each for the policies of its scope.
    #[must_use]
    pub fn of_tokens<'a>(
        callers: impl IntoIterator<Item = Token<'a>>,
        admins: impl IntoIterator<Item = Token<'a>>,
    ) -> Self {
        let with = |role| {
            move |token: Token<'a>| (TokenHash::of(token.text()), role, token.scope().clone())
        };
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
        self.tokens.iter().any(|(_, role, _)| *role == Role::Caller)
    }

    /// Whether there is any token.
    #[must_use]
    pub const fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// What a client may do without a token.
    #[must_use]
    pub fn role_without_token(&self) -> Option<Role> {
        match (self.tokens.is_empty(), self.guards_callers()) {
            (true, _) if !self.only_callers => Some(Role::Admin),
            (_, false) => Some(Role::Caller),
            (_, true) => None,
        }
    }

    /// What a client with this token, or with none, may do.
    #[must_use]
    pub fn rights_of(&self, token: Option<&TokenHash>) -> Option<Rights> {
        self.rights_by(token).or_else(|| {
            let role = self.role_without_token()?;
            Some(Rights { role, policies: Scope::ALL, is_known: self.tokens.is_empty() })
        })
    }

    /// What a token allows by itself, if it is known.
    #[must_use]
    pub fn rights_by(&self, token: Option<&TokenHash>) -> Option<Rights> {
        let token = token?;
        let mut found: Option<&(TokenHash, Role, Scope)> = None;
        // Every hash is compared, so that the time does not depend on which one matches.
        for one in &self.tokens {
            if one.0 == *token && found.is_none_or(|(_, role, _)| one.1 > *role) {
                found = Some(one);
            }
        }
        let (_, role, policies) = found?;
        Some(Rights { role: *role, policies: policies.clone(), is_known: true })
    }

    /// Accepts clients that have the role `needed`; what they may do.
    ///
    /// # Errors
    /// `unauthorized` without a token or with an unknown one; `forbidden` when a client that is
    /// known lacks the right.
    pub fn permit(&self, token: Option<&str>, needed: Role) -> Result<Rights> {
        // Without tokens there is nothing to compare with.
        let token = token.filter(|_| self.has_tokens()).map(TokenHash::of);
        match self.rights_of(token.as_ref()) {
            Some(rights) => rights.permit(needed).map(|()| rights),
            None => Err(Rights::none().lacks(needs(needed))),
        }
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenHash").finish_non_exhaustive()
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

    use super::{Auth, Rights, Role, Scope, Token, TokenHash};

    fn role_of(auth: &Auth, token: Option<&str>) -> Option<Role> {
        auth.rights_of(token.map(TokenHash::of).as_ref()).map(|rights| rights.role)
    }

    #[test]
    fn a_token_grants_the_rights_of_its_role_and_no_others() {
        let auth = |callers: &[&'static str], admins: &[&'static str]| {
            Auth::new(callers.iter().copied(), admins.iter().copied())
        };
        assert_eq!(role_of(&auth(&[], &[]), None), Some(Role::Admin));
        assert_eq!(role_of(&auth(&[], &["a"]), None), Some(Role::Caller));
        assert_eq!(role_of(&auth(&[], &["a"]), Some("a")), Some(Role::Admin));
        let both = auth(&["c", "d", "a"], &["a"]);
        let roles = [None, Some(""), Some("c"), Some("d"), Some("a"), Some("cc")];
        let (caller, admin) = (Some(Role::Caller), Some(Role::Admin));
        assert_eq!(
            roles.map(|token| role_of(&both, token)),
            [None, None, caller, caller, admin, None]
        );
    }

    #[test]
    fn a_token_is_for_its_policies_alone() {
        let scope = Scope::of(["api"]);
        let admin = Token::new("a").within(scope.clone());
        let auth = Auth::of_tokens([Token::new("c")], [admin]);
        let rights = auth.permit(Some("a"), Role::Admin).unwrap();
        assert_eq!(rights, Rights { policies: scope, ..Rights::of(Role::Admin) });
        assert!(auth.permit(Some("c"), Role::Caller).unwrap().policies.is_all());
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
        assert_eq!(role_of(&certificates, None), Some(Role::Caller));
        assert_eq!(refused(&certificates, None), Code::Forbidden);
        assert_eq!(refused(&certificates, Some("x")), Code::Forbidden);
    }
}

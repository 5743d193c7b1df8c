//! Who may ask: tokens of callers and of administrators. Comparing takes the same time whatever is
//! wrong, and nothing here can print a token.

use std::fmt;

use ring::{hmac, rand};
use tollgate::{Code, Error, Result};

/// What a token allows. Administrators may do what callers may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May ask for decisions.
    Caller,
    /// May also reset keys.
    Admin,
}

/// The tokens of a server.
///
/// Without any, everybody may do everything: for servers that only this machine reaches. With tokens
/// of callers, asking needs one, and resetting one of an administrator.
#[derive(Clone)]
pub struct Auth {
    /// Made for this process: what is kept of a token is useless elsewhere.
    key: hmac::Key,
    tokens: Vec<(hmac::Tag, Role)>,
}

impl Auth {
    /// Tokens of callers and of administrators.
    ///
    /// # Errors
    /// When the operating system has no randomness.
    pub fn new<'a>(
        callers: impl Iterator<Item = &'a str>,
        admins: impl Iterator<Item = &'a str>,
    ) -> Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new())
            .map_err(|_| Error::new(Code::Unsupported, "the system has no randomness"))?;
        let of = |role| move |token: &'a str| (token, role);
        let all = callers.map(of(Role::Caller)).chain(admins.map(of(Role::Admin)));
        let tokens = all.map(|(token, role)| (hmac::sign(&key, token.as_bytes()), role)).collect();
        Ok(Self { key, tokens })
    }

    /// Whether callers need a token.
    #[must_use]
    pub fn guards_callers(&self) -> bool {
        self.tokens.iter().any(|(_, role)| *role == Role::Caller)
    }

    /// What somebody with this token, or with none, may do.
    #[must_use]
    pub fn role_of(&self, token: Option<&str>) -> Option<Role> {
        let open = match (self.tokens.is_empty(), self.guards_callers()) {
            (true, _) => Some(Role::Admin),
            (false, false) => Some(Role::Caller),
            (false, true) => None,
        };
        let Some(token) = token else { return open };
        // Every token is compared, so that time tells nothing about which is near.
        let fits = |(tag, role): &(hmac::Tag, Role)| {
            hmac::verify(&self.key, token.as_bytes(), tag.as_ref()).ok().map(|()| *role)
        };
        let found =
            self.tokens.iter().map(fits).fold(None, |best: Option<Role>, one| best.max(one));
        found.max(open)
    }

    /// Refuses whoever may not do what `needed` may.
    ///
    /// # Errors
    /// `unauthorized`.
    pub fn permit(&self, token: Option<&str>, needed: Role) -> Result<()> {
        if self.role_of(token) >= Some(needed) {
            return Ok(());
        }
        let message = match needed {
            Role::Caller => "needs a token: Authorization: Bearer …",
            Role::Admin => "needs the token of an administrator",
        };
        Err(Error::new(Code::Unauthorized, message))
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

/// The token of an `Authorization` header.
pub(crate) fn bearer(headers: &axum::http::HeaderMap) -> Option<&str> {
    let value = headers.get(axum::http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::{Auth, Role};

    #[test]
    fn a_token_allows_what_its_role_may_and_nothing_else_does() {
        let auth = |callers: &[&'static str], admins: &[&'static str]| {
            Auth::new(callers.iter().copied(), admins.iter().copied()).unwrap()
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
        assert!(auth(&["c"], &[]).permit(Some("c"), Role::Admin).is_err());
    }
}

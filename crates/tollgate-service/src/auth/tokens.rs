//! Tokens as a configuration states them: texts, each perhaps with the policies that it is for.
//!
//! `token-of-anyone,token-of-the-api:api+login`: commas separate tokens, a colon its policies. No
//! token of RFC 6750 contains either.

use std::fmt;

use super::Scope;

/// The shortest token accepted, in bytes: shorter ones can be guessed.
pub const TOKEN_MIN_BYTES: usize = 16;

/// A token, and the policies that it is for. `Debug` omits it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token<'a> {
    text: &'a str,
    scope: Scope,
}

impl<'a> Token<'a> {
    /// A token for every policy.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self { text, scope: Scope::ALL }
    }

    /// The same for these policies alone.
    #[must_use]
    pub fn within(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// The tokens of a text, which commas separate.
    ///
    /// # Errors
    /// What is wrong with one of them, and what is accepted. The text is not repeated.
    pub fn list(text: &'a str) -> Result<Vec<Self>, String> {
        let elements = text.split(',').map(str::trim).filter(|element| !element.is_empty());
        elements.map(Self::parse).collect()
    }

    fn parse(element: &'a str) -> Result<Self, String> {
        let (text, names) = match element.split_once(':') {
            Some((text, names)) => (text.trim_end(), Some(names)),
            None => (element, None),
        };
        if text.len() < TOKEN_MIN_BYTES {
            return Err(format!(
                "holds a token that can be guessed; accepted: {TOKEN_MIN_BYTES} bytes and more, \
                 separated by commas"
            ));
        }
        let Some(names) = names else { return Ok(Self::new(text)) };
        let names: Vec<&str> = names.split('+').map(str::trim).collect();
        if names.iter().any(|name| name.is_empty()) {
            let accepted = "accepted: token:policy, or token:policy+policy";
            return Err(format!("holds a token with a colon and no policy behind it; {accepted}"));
        }
        Ok(Self::new(text).within(Scope::of(names)))
    }

    /// The text.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// The policies.
    #[must_use]
    pub const fn scope(&self) -> &Scope {
        &self.scope
    }
}

/// Refuses a token that is stated twice with different policies, and one for a policy that does not
/// exist, by `exists`.
///
/// # Errors
/// What is wrong, and what is accepted. No token is repeated, and neither is what may be a part of
/// one.
pub fn validate_tokens(tokens: &[Token<'_>], exists: impl Fn(&str) -> bool) -> Result<(), String> {
    for (index, token) in tokens.iter().enumerate() {
        let earlier = tokens.iter().take(index).find(|earlier| earlier.text == token.text);
        if earlier.is_some_and(|earlier| earlier.scope != token.scope) {
            return Err("holds a token twice, with different policies; accepted: once".to_owned());
        }
        let mut unknown = token.scope.names().filter(|name| !exists(name));
        if unknown.next().is_some() {
            let place = index + 1;
            return Err(format!(
                "has a policy that does not exist, behind the colon of token {place}; accepted: \
                 names of policies of this configuration"
            ));
        }
    }
    Ok(())
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("scope", &self.scope).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_with_their_policies() {
        let text = "token-of-a-caller, token-of-another:api+login ,,token-of-a-third : api";
        let read = Token::list(text).unwrap();
        let expected = [
            Token::new("token-of-a-caller"),
            Token::new("token-of-another").within(Scope::of(["api", "login"])),
            Token::new("token-of-a-third").within(Scope::of(["api"])),
        ];
        assert_eq!(read, expected);
        assert!(!format!("{read:?}").contains("token-of"), "{read:?}");
        assert_eq!(Token::list(" , ").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_token() {
        for text in ["short", "short:api", "token-of-a-caller:", "token-of-a-caller:api+"] {
            let why = Token::list(text).unwrap_err();
            assert!(why.contains("accepted") && !why.contains("api+"), "{why}");
        }
        let validate = |text: &'static str| {
            validate_tokens(&Token::list(text).unwrap(), |name| ["api", "login"].contains(&name))
        };
        assert!(validate("token-of-a-caller,token-of-a-caller").is_ok());
        assert!(validate("token-of-a-caller:api+login").is_ok());
        let twice = validate("token-of-a-caller:api,token-of-a-caller").unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
        let unknown = validate("token-of-a-caller,token-of-another:apj").unwrap_err();
        assert!(unknown.contains("token 2") && !unknown.contains("apj"), "{unknown}");
    }
}

//! Who may give units back under a policy: by a refund, or by a settlement for less than was
//! charged. To settle for more takes a receipt and no right.

use tollgate_core::{Code, Error, Result};

use crate::auth::{Rights, Role};

/// Who may give units back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refunds {
    /// Callers with the receipt of a charge, and administrators.
    #[default]
    Receipt,
    /// Administrators, with or without a receipt.
    Admin,
    /// No client.
    Off,
}

impl Refunds {
    /// The word in a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Admin => "admin",
            Self::Off => "off",
        }
    }

    /// All of them, by their words in a configuration.
    pub const ALL: [(&'static str, Self); 3] = [
        (Self::Receipt.as_str(), Self::Receipt),
        (Self::Admin.as_str(), Self::Admin),
        (Self::Off.as_str(), Self::Off),
    ];

    /// Accepts a refund by a client with these rights, with a receipt or without one.
    ///
    /// # Errors
    /// `forbidden`, or `unauthorized` where a token could give the right; with what is accepted.
    pub fn permit(self, rights: &Rights, has_receipt: bool) -> Result<()> {
        let message = match (self, rights.role) {
            (Self::Off, _) => {
                return Err(Error::new(Code::Forbidden, "the policy accepts no refunds"));
            }
            (Self::Receipt | Self::Admin, Role::Admin) => return Ok(()),
            (Self::Receipt, Role::Caller) if has_receipt => return Ok(()),
            (Self::Receipt, Role::Caller) => {
                "needs the receipt of the charge, or the token of an administrator"
            }
            (Self::Admin, Role::Caller) => {
                "the policy accepts refunds with the token of an administrator alone"
            }
        };
        Err(rights.lacks(message))
    }
}

//! The token of the client commands. It is read here, handed to the client, and never shown.

use std::fmt;
use std::path::Path;

use crate::failure::Failure;
use crate::token;

/// A token that no message shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The token in a file, without its line end.
    pub(super) fn from_file(path: &Path) -> Result<Self, Failure> {
        token::file_text(path).map(Self)
    }

    /// The token itself, for the one who sends it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

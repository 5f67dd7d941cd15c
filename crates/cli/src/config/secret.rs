//! The token of the client commands. It is read here, handed to the client, and never shown.

use std::fmt;
use std::path::PathBuf;

use super::contained_file;
use crate::failure::Failure;
use crate::token;

/// A token that no message shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
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

/// Where a token is. What is not sent is not read either.
#[derive(Clone, Debug)]
pub(super) enum TokenPlace {
    Text(Secret),
    /// The user says which file.
    File(PathBuf),
    /// A project file says which file, and may name those of its own folder only.
    FileInside {
        folder: PathBuf,
        path: PathBuf,
        named_by: PathBuf,
    },
}

impl TokenPlace {
    pub(super) fn read(self) -> Result<Secret, Failure> {
        match self {
            Self::Text(secret) => Ok(secret),
            Self::File(path) => token::file_text(&path).map(Secret),
            Self::FileInside { folder, path, named_by } => {
                let named = format!("the token_file {} of {}", path.display(), named_by.display());
                let file = contained_file::open(&folder, &path);
                let file = file.map_err(|error| Failure::Refused(format!("{named} cannot be used: {error}")))?;
                token::text_of(file, &named).map(Secret)
            }
        }
    }
}

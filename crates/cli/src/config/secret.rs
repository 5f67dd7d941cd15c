//! The token of the client commands, which no message shows.

use std::fmt;
use std::path::PathBuf;

use super::contained_file;
use crate::failure::Failure;
use crate::token;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Where a token is stored. It is read only if it is sent.
#[derive(Clone, Debug)]
pub(super) enum TokenLocation {
    Text(Secret),
    /// A file that the user has named.
    File(PathBuf),
    /// A file that a project file names. It must be inside the folder of the project file.
    FileInside {
        folder: PathBuf,
        path: PathBuf,
        named_by: PathBuf,
    },
}

impl TokenLocation {
    pub(super) fn read(self) -> Result<Secret, Failure> {
        match self {
            Self::Text(secret) => Ok(secret),
            Self::File(path) => token::read_file(&path).map(Secret),
            Self::FileInside { folder, path, named_by } => {
                let named = format!("the token_file {} of {}", path.display(), named_by.display());
                let file = contained_file::open(&folder, &path);
                let file = file.map_err(|error| Failure::Refused(format!("{named} cannot be used: {error}")))?;
                token::read_open_file(file, &folder.join(path), &named).map(Secret)
            }
        }
    }
}

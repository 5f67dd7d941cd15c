//! The run directory, and the check that it is private: it belongs to the user whom the worker runs as, and no other user can write
//! to it or replace it. What is stored there is decided elsewhere.

mod ownership;
mod path;

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use self::ownership::{OwnerAndMode, TrustedUsers};

pub(crate) const FOLDER_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

/// A run directory that was checked.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

/// Why a run directory, or something in it, is not used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Another user could have written or could replace it. The text says why and, where possible, how to correct it.
    #[error("{0}")]
    Insecure(String),
    /// It cannot be created or opened.
    #[error("{}: {error}", path.display())]
    Unusable { path: PathBuf, error: io::Error },
}

impl RunDirError {
    fn unusable(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Unusable { path: path.to_owned(), error: error.into() }
    }
}

impl RunDirError {
    fn is_not_found(&self) -> bool {
        matches!(self, Self::Unusable { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<RunDirError> for io::Error {
    fn from(error: RunDirError) -> Self {
        Self::other(error)
    }
}

impl RunDir {
    /// Creates the directory if it is missing. An existing one has to belong to this user, and no other user may be able to write
    /// to it or replace it. If only the user's own group can write to it, that permission is removed: a umask of 002 gives it.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let path = std::path::absolute(path).map_err(|error| RunDirError::unusable(path, error))?;
        ensure_private(&path::open_checked(&path, &TrustedUsers::current())?, &path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in the run directory, created if it is missing.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, RunDirError> {
        let folder = self.0.join(name);
        let create = || DirBuilder::new().mode(FOLDER_MODE).create(&folder);
        let created = create().or_else(|error| match error.kind() {
            // Somebody removed the run directory.
            io::ErrorKind::NotFound => Self::open(&self.0).map_err(io::Error::from).and_then(|_| create()),
            _ => Err(error),
        });
        match created {
            Ok(()) => Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                ensure_private(&open_folder(&folder)?, &folder).map(|()| folder)
            }
            Err(error) => Err(RunDirError::unusable(&folder, error)),
        }
    }

    /// Creates the folder `name/inner`, which must not exist yet.
    pub(crate) fn new_folder(&self, name: &str, inner: &str) -> Result<PathBuf, RunDirError> {
        let create = || {
            let folder = self.folder(name)?.join(inner);
            match DirBuilder::new().mode(FOLDER_MODE).create(&folder) {
                Ok(()) => Ok(folder),
                Err(error) => Err(RunDirError::unusable(&folder, error)),
            }
        };
        // Another worker may have removed the outer folder in between, because it was empty.
        create().or_else(|error| if error.is_not_found() { create() } else { Err(error) })
    }
}

/// Options that neither follow a symbolic link nor wait for the other end of a pipe.
pub(crate) fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).mode(FILE_MODE);
    options
}

/// Opens a regular file that no other user can have written.
pub(crate) fn open_private(path: &Path) -> Result<File, RunDirError> {
    let file = open_options().read(true).open(path).map_err(|error| link_or_unusable(path, error))?;
    let metadata = file.metadata().map_err(|error| RunDirError::unusable(path, error))?;
    if !metadata.is_file() {
        return Err(RunDirError::Insecure(format!("{} is not a regular file", path.display())));
    }
    match TrustedUsers::current().check_own(OwnerAndMode::of(&metadata)) {
        Ok(false) => Ok(file),
        Ok(true) => Err(RunDirError::Insecure(format!("{} is writable by the group", path.display()))),
        Err(problem) => Err(problem.error_of_own(path)),
    }
}

/// Opens a folder without following a symbolic link.
fn open_folder(path: &Path) -> Result<File, RunDirError> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    options.open(path).map_err(|error| link_or_unusable(path, error))
}

/// Explains why a path that must not be a link could not be opened.
fn link_or_unusable(path: &Path, error: io::Error) -> RunDirError {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => RunDirError::Insecure(format!("{} is a link", path.display())),
        _ => RunDirError::unusable(path, error),
    }
}

/// Checks the owner and mode of a folder after it was opened, so that it cannot be replaced in between.
fn ensure_private(folder: &File, path: &Path) -> Result<(), RunDirError> {
    let unusable = |error: io::Error| RunDirError::unusable(path, error);
    let found = OwnerAndMode::of(&folder.metadata().map_err(unusable)?);
    let is_open_to_group = TrustedUsers::current().check_own(found).map_err(|problem| problem.error_of_own(path))?;
    if is_open_to_group {
        folder.set_permissions(Permissions::from_mode(found.mode & !0o020)).map_err(unusable)?;
    }
    Ok(())
}

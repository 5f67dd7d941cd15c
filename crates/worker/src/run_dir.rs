//! The run directory, and which folders and files in it are believed: those of the user whom the worker runs as, which nobody
//! else can write to or put something else in the place of. What is kept there is decided elsewhere.

mod ownership;
mod path;

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use self::ownership::{Facts, Trusted};

/// What a worker makes is its user's business only.
pub(crate) const FOLDER_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

/// A run directory that is believed.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

/// Why a run directory, or something in it, is not used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// Somebody else could have put there what is there, or could replace it. The text says what to do, unless it is to name
    /// another.
    #[error("{0}")]
    NotOurs(String),
    /// It cannot be made or opened.
    #[error("{}: {error}", path.display())]
    Unusable {
        /// The folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl RunDirError {
    fn unusable(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Unusable { path: path.to_owned(), error: error.into() }
    }
}

impl From<RunDirError> for io::Error {
    fn from(error: RunDirError) -> Self {
        Self::other(error)
    }
}

impl RunDir {
    /// Makes the directory if there is none. One that exists has to be ours, and so that nobody else can write to it or replace
    /// it. If only our own group can write to it, that permission is taken away: with a umask of 002, folders are made so.
    ///
    /// # Errors
    ///
    /// When it cannot be made, or is not to be believed.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let path = std::path::absolute(path).map_err(|error| RunDirError::unusable(path, error))?;
        believe(&path::walk(&path, &Trusted::current())?, &path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A folder in it, made if there is none.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, RunDirError> {
        let folder = self.0.join(name);
        let make = || DirBuilder::new().mode(FOLDER_MODE).create(&folder);
        let made = make().or_else(|error| match error.kind() {
            // Somebody tidied up.
            io::ErrorKind::NotFound => Self::open(&self.0).map_err(io::Error::from).and_then(|_| make()),
            _ => Err(error),
        });
        match made {
            Ok(()) => Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                believe(&open_folder(&folder)?, &folder).map(|()| folder)
            }
            Err(error) => Err(RunDirError::unusable(&folder, error)),
        }
    }

    /// A folder in a folder in it, which must not be there yet.
    pub(crate) fn new_folder(&self, name: &str, inner: &str) -> Result<PathBuf, RunDirError> {
        let folder = self.folder(name)?.join(inner);
        DirBuilder::new().mode(FOLDER_MODE).create(&folder).map_err(|error| RunDirError::unusable(&folder, error))?;
        Ok(folder)
    }
}

/// Options that do not follow a link in the place of a file, and do not wait for somebody at the other end of a pipe.
pub(crate) fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).mode(FILE_MODE);
    options
}

/// Opens a file for reading, if it is one and nobody else can have written to it.
pub(crate) fn open_believed(path: &Path) -> Result<File, RunDirError> {
    let file = open_options().read(true).open(path).map_err(|error| link_or_unusable(path, error))?;
    let metadata = file.metadata().map_err(|error| RunDirError::unusable(path, error))?;
    if !metadata.is_file() {
        return Err(RunDirError::NotOurs(format!("{} is no file", path.display())));
    }
    match Trusted::current().own(Facts::of(&metadata)) {
        Ok(false) => Ok(file),
        Ok(true) => Err(RunDirError::NotOurs(format!("{} may be written by the group", path.display()))),
        Err(flaw) => Err(RunDirError::NotOurs(flaw.own(path))),
    }
}

/// Opens a folder itself, not what a link in its place leads to.
fn open_folder(path: &Path) -> Result<File, RunDirError> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    options.open(path).map_err(|error| link_or_unusable(path, error))
}

/// Why something could not be opened that must not be a link.
fn link_or_unusable(path: &Path, error: io::Error) -> RunDirError {
    match path.symlink_metadata() {
        Ok(metadata) if metadata.is_symlink() => RunDirError::NotOurs(format!("{} is a link", path.display())),
        _ => RunDirError::unusable(path, error),
    }
}

/// Makes sure that a folder is ours. It is looked at after it was opened, so that it cannot be exchanged in between.
fn believe(folder: &File, path: &Path) -> Result<(), RunDirError> {
    let unusable = |error: io::Error| RunDirError::unusable(path, error);
    let facts = Facts::of(&folder.metadata().map_err(unusable)?);
    let is_open_to_group = Trusted::current().own(facts).map_err(|flaw| RunDirError::NotOurs(flaw.own(path)))?;
    if is_open_to_group {
        folder.set_permissions(Permissions::from_mode(facts.mode & !0o020)).map_err(unusable)?;
    }
    Ok(())
}

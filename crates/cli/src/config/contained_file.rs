//! Opens a file that must be inside a folder after links are resolved. A link that is changed during the check cannot lead
//! outside either.

use std::fs::{self, File};
use std::io;
use std::path::{Component, Path};

use rustix::fs::{Mode, OFlags, openat};

/// The regular file at `path`, which is inside `folder` or relative to it.
pub(super) fn open(folder: &Path, path: &Path) -> io::Result<File> {
    let outside = || io::Error::other("it must stay inside the folder of the file that names it, without `..`");
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(outside());
    }
    let folder = fs::canonicalize(folder)?;
    let resolved = fs::canonicalize(folder.join(path))?;
    let relative = resolved.strip_prefix(&folder).map_err(|_| outside())?;
    // Opening a pipe without a writer must not block.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::open(&folder)?;
    // Links are resolved already; NOFOLLOW refuses a component that became a link since.
    for name in relative {
        file = openat(&file, Path::new(name), flags, Mode::empty())?.into();
    }
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it must be a regular file")) }
}

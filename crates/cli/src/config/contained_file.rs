//! Opens a file that must lie inside a folder, links resolved. No way out of the folder is taken, also not by somebody who
//! changes links while we look.

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
    let below = resolved.strip_prefix(&folder).map_err(|_| outside())?;
    // A missing writer of a pipe must not hold us up; a regular file does not mind.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::open(&folder)?;
    // What was a link a moment ago is resolved; what became one since is refused.
    for name in below {
        file = openat(&file, Path::new(name), flags, Mode::empty())?.into();
    }
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it must be a regular file")) }
}

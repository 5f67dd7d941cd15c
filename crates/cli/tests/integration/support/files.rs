//! Files with the modes and times that the product looks at.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

pub(crate) fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Puts a file in place as a whole, as editors and configuration systems do.
pub(crate) fn put_in_place(path: &Path, text: &str, mode: u32) {
    let new = path.with_extension("new");
    fs::write(&new, text).unwrap();
    set_mode(&new, mode);
    fs::rename(new, path).unwrap();
}

/// Makes a file a minute old: a start waits until nobody has changed the tokens file for a second.
pub(crate) fn make_old(path: &Path) {
    let a_while_ago = SystemTime::now() - Duration::from_secs(60);
    fs::File::options().write(true).open(path).unwrap().set_modified(a_while_ago).unwrap();
}

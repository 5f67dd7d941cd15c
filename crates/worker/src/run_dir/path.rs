//! The way to a folder, part by part: whoever could replace one of them could put another folder in its place. Missing parts are
//! made.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use super::ownership::{Facts, Trusted};
use super::{FOLDER_MODE, RunDirError};

/// As many links as the kernel follows.
const MOST_LINKS: u32 = 40;

/// The folders from the root to where the walk is, opened and believed, with their paths.
struct Walk<'a> {
    trusted: &'a Trusted,
    folders: Vec<(OwnedFd, PathBuf)>,
    parts: VecDeque<OsString>,
    links: u32,
}

/// Walks an absolute path and opens the folder that it leads to. Every folder and every link on the way is looked at after it was
/// opened. Whether the folder itself is believed is not said.
pub(super) fn walk(path: &Path, trusted: &Trusted) -> Result<File, RunDirError> {
    let mut walk = Walk { trusted, folders: Vec::new(), parts: VecDeque::new(), links: 0 };
    walk.continue_at(path)?;
    while let Some(part) = walk.parts.pop_front() {
        walk.step(part)?;
    }
    let (folder, path) = walk.here();
    let opened = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    opened.map(File::from).map_err(|error| RunDirError::unusable(path, error))
}

impl Walk<'_> {
    fn here(&self) -> (std::os::fd::BorrowedFd<'_>, &Path) {
        self.folders.last().map_or((CWD, Path::new("/")), |(folder, path)| (folder.as_fd(), path.as_path()))
    }

    /// Puts a path in front of the parts that are still to be walked.
    fn continue_at(&mut self, path: &Path) -> Result<(), RunDirError> {
        if path.is_absolute() {
            let unusable = |error: Errno| RunDirError::unusable(Path::new("/"), error);
            let root = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            self.folders = vec![(root.map_err(unusable)?, PathBuf::from("/"))];
        }
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.parts.push_front(name.to_owned()),
                Component::ParentDir => self.parts.push_front("..".into()),
                _ => {}
            }
        }
        Ok(())
    }

    fn step(&mut self, part: OsString) -> Result<(), RunDirError> {
        if part == ".." {
            if self.folders.len() > 1 {
                self.folders.pop();
            }
            return Ok(());
        }
        let (folder, above) = self.here();
        let path = above.join(&part);
        let unusable = |error: Errno| RunDirError::unusable(&path, error);
        let facts = facts(folder).map_err(unusable)?;
        self.trusted.above(facts.1).map_err(|flaw| RunDirError::NotOurs(flaw.above(above)))?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(folder, &part, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                match mkdirat(folder, &part, Mode::from_raw_mode(FOLDER_MODE)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(unusable(error)),
                }
                openat(folder, &part, flags, Mode::empty())
            }
            opened => opened,
        };
        let opened = opened.map_err(unusable)?;
        let (kind, facts) = self::facts(opened.as_fd()).map_err(unusable)?;
        match kind {
            FileType::Directory => self.folders.push((opened, path)),
            FileType::Symlink => {
                self.trusted.link(facts.owner).map_err(|flaw| RunDirError::NotOurs(flaw.above(&path)))?;
                self.links += 1;
                if self.links > MOST_LINKS {
                    return Err(unusable(Errno::LOOP));
                }
                let target = readlinkat(&opened, "", Vec::new()).map_err(unusable)?.into_bytes();
                self.continue_at(&PathBuf::from(OsString::from_vec(target)))?;
            }
            _ => return Err(unusable(Errno::NOTDIR)),
        }
        Ok(())
    }
}

fn facts(file: std::os::fd::BorrowedFd<'_>) -> Result<(FileType, Facts), Errno> {
    let stat = fstat(file)?;
    let mode = stat.st_mode & 0o7777;
    Ok((FileType::from_raw_mode(stat.st_mode), Facts { owner: stat.st_uid, group: stat.st_gid, mode }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn walked(path: &Path) -> Result<PathBuf, String> {
        let folder = walk(path, &Trusted::current()).map_err(|error| error.to_string())?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
        Ok(fs::read_link(format!("/proc/self/fd/{number}")).unwrap())
    }

    fn permit(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn missing_parts_are_made_for_us_only() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        assert_eq!(walked(&top.join("a/b")), Ok(top.join("a/b")));
        for made in ["a", "a/b"] {
            assert_eq!(fs::metadata(top.join(made)).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        assert_eq!(walked(&top.join("a/../a/./b")), Ok(top.join("a/b")));
    }

    #[test]
    fn links_of_ours_are_followed_where_they_lead() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir(top.join("a")).unwrap();
        symlink("a", top.join("relative")).unwrap();
        symlink(top.join("relative/../a"), top.join("absolute")).unwrap();
        assert_eq!(walked(&top.join("absolute/b")), Ok(top.join("a/b")));
        symlink("circle", top.join("circle")).unwrap();
        assert!(walked(&top.join("circle/b")).unwrap_err().contains("Too many levels"));
    }

    #[test]
    fn a_folder_that_everybody_can_write_to_is_passed_only_if_it_is_sticky() {
        let top = tempfile::tempdir().unwrap();
        let open = top.path().join("open");
        fs::create_dir(&open).unwrap();
        permit(&open, 0o777);
        let refused = walked(&open.join("runs")).unwrap_err();
        assert!(refused.contains("may be written by everybody") && refused.contains("chmod +t"), "{refused}");
        assert!(!open.join("runs").exists(), "nothing is made there");
        permit(&open, 0o1777);
        assert!(walked(&open.join("runs")).is_ok());
    }

    #[test]
    fn a_file_on_the_way_is_told() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        assert!(walked(&top.path().join("file/runs")).unwrap_err().contains("Not a directory"));
    }
}

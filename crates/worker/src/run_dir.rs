//! The run directory, and the check that it is private: it belongs to the user whom the worker runs as, and no other user can write
//! to it or replace it. What is stored there is decided elsewhere.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, read_to_string};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

pub(crate) const FOLDER_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;

/// A run directory that was checked.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Creates the directory if it is missing. An existing one has to belong to this user, and no other user may be able to write
    /// to it or replace it. If only the user's own group can write to it, that permission is removed: a umask of 002 gives it.
    pub fn open(path: &Path) -> Result<Self, RunDirError> {
        let path = std::path::absolute(path).map_err(|error| RunDirError::unusable(path, error))?;
        ensure_private(&open_checked(&path, &TrustedUsers::current())?, &path)?;
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
            let created = DirBuilder::new().mode(FOLDER_MODE).create(&folder);
            created.map_err(|error| RunDirError::unusable(&folder, error)).map(|()| folder)
        };
        // Another worker may have removed the outer folder in between, because it was empty.
        create().or_else(|error| if error.is_not_found() { create() } else { Err(error) })
    }
}

/// Options that neither follow a symbolic link nor wait for the other end of a pipe.
pub(crate) fn open_options() -> OpenOptions {
    let mut options = with_flags(OFlags::NOFOLLOW | OFlags::NONBLOCK);
    options.mode(FILE_MODE);
    options
}

pub(crate) fn with_flags(flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
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
    let mut options = with_flags(OFlags::NOFOLLOW | OFlags::DIRECTORY);
    options.read(true).open(path).map_err(|error| link_or_unusable(path, error))
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

/// The kernel's own limit.
const MOST_LINKS: u32 = 40;

struct Walk<'a> {
    trusted: &'a TrustedUsers,
    /// The checked folders from the root to the current one.
    folders: Vec<(OwnedFd, PathBuf)>,
    parts: VecDeque<OsString>,
    links: u32,
}

/// Opens the folder at an absolute path. Every parent folder and every link on the path is checked after it was opened; the folder
/// itself is not.
fn open_checked(path: &Path, trusted: &TrustedUsers) -> Result<File, RunDirError> {
    let mut walk = Walk { trusted, folders: Vec::new(), parts: VecDeque::new(), links: 0 };
    walk.prepend(path)?;
    while let Some(part) = walk.parts.pop_front() {
        walk.step(part)?;
    }
    let (folder, path) = walk.current();
    let opened = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    opened.map(File::from).map_err(|error| RunDirError::unusable(path, error))
}

impl Walk<'_> {
    fn current(&self) -> (std::os::fd::BorrowedFd<'_>, &Path) {
        self.folders.last().map_or((CWD, Path::new("/")), |(folder, path)| (folder.as_fd(), path.as_path()))
    }

    /// Puts the parts of a path before those that are left.
    fn prepend(&mut self, path: &Path) -> Result<(), RunDirError> {
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
        let (folder, parent) = self.current();
        let path = parent.join(&part);
        let unusable = |error: Errno| RunDirError::unusable(&path, error);
        let (_, found) = inspect(folder).map_err(unusable)?;
        self.trusted.check_parent(found).map_err(|problem| problem.error_of_parent(parent))?;
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
        let (kind, found) = inspect(opened.as_fd()).map_err(unusable)?;
        match kind {
            FileType::Directory => self.folders.push((opened, path)),
            FileType::Symlink => {
                self.trusted.check_link(found.owner).map_err(|problem| problem.error_of_parent(&path))?;
                self.links += 1;
                if self.links > MOST_LINKS {
                    return Err(unusable(Errno::LOOP));
                }
                let target = readlinkat(&opened, "", Vec::new()).map_err(unusable)?.into_bytes();
                self.prepend(&PathBuf::from(OsString::from_vec(target)))?;
            }
            _ => return Err(unusable(Errno::NOTDIR)),
        }
        Ok(())
    }
}

fn inspect(file: std::os::fd::BorrowedFd<'_>) -> Result<(FileType, OwnerAndMode), Errno> {
    let stat = fstat(file)?;
    let mode = stat.st_mode & 0o7777;
    Ok((FileType::from_raw_mode(stat.st_mode), OwnerAndMode { owner: stat.st_uid, group: stat.st_gid, mode }))
}

/// The reason for which a run directory, or something in it, is not used.
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
    pub(super) fn unusable(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Unusable { path: path.to_owned(), error: error.into() }
    }

    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Unusable { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<RunDirError> for io::Error {
    fn from(error: RunDirError) -> Self {
        Self::other(error)
    }
}

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const GROUP_WRITE: u32 = 0o020;
const WORLD_WRITE: u32 = 0o002;

#[derive(Clone, Copy, Debug)]
pub(super) struct OwnerAndMode {
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) mode: u32,
}

impl OwnerAndMode {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o7777 }
    }
}

/// The trusted users: the one whom this process runs as, and root.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrustedUsers {
    user: u32,
    /// The group of new files of this user. Where every user has a group of their own, it has no other member.
    group: u32,
    /// In a container: the number that stands for all users outside it, including the machine's root.
    outside: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnershipProblem {
    OtherOwner(u32),
    GroupWritable(u32),
    WorldWritable,
}

impl TrustedUsers {
    pub(super) fn current() -> Self {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { user, group, outside: outside_user() }
    }

    /// Checks what has to belong to this user. `true` means that the user's own group can write to it, and that this permission
    /// has to be removed; it probably comes from the umask.
    pub(super) fn check_own(&self, found: OwnerAndMode) -> Result<bool, OwnershipProblem> {
        if found.owner != self.user {
            return Err(OwnershipProblem::OtherOwner(found.owner));
        }
        if found.mode & WORLD_WRITE != 0 {
            return Err(OwnershipProblem::WorldWritable);
        }
        let is_open_to_group = found.mode & GROUP_WRITE != 0;
        if is_open_to_group && found.group != self.group {
            return Err(OwnershipProblem::GroupWritable(found.group));
        }
        Ok(is_open_to_group)
    }

    /// Checks that no other user can replace what is in a parent folder. In a sticky folder only its owner can replace the entries
    /// of others.
    pub(super) fn check_parent(&self, found: OwnerAndMode) -> Result<(), OwnershipProblem> {
        self.check_link(found.owner)?;
        if found.mode & STICKY != 0 {
            return Ok(());
        }
        if found.mode & WORLD_WRITE != 0 {
            return Err(OwnershipProblem::WorldWritable);
        }
        let is_our_group = found.owner == self.user && found.group == self.group;
        if found.mode & GROUP_WRITE != 0 && !is_our_group {
            return Err(OwnershipProblem::GroupWritable(found.group));
        }
        Ok(())
    }

    /// Checks the owner of a symbolic link.
    pub(super) fn check_link(&self, owner: u32) -> Result<(), OwnershipProblem> {
        let is_trusted = owner == self.user || owner == ROOT || Some(owner) == self.outside;
        if is_trusted { Ok(()) } else { Err(OwnershipProblem::OtherOwner(owner)) }
    }
}

impl OwnershipProblem {
    /// The error for what has to belong to this user.
    pub(super) fn error_of_own(self, path: &Path) -> RunDirError {
        let path = path.display();
        RunDirError::Insecure(match self {
            Self::OtherOwner(owner) => format!("{path} belongs to another user ({owner})"),
            Self::GroupWritable(group) => {
                format!("{path} is writable by the group {group}; forbid that with chmod g-w {path}")
            }
            Self::WorldWritable => format!("{path} is writable by everybody; forbid that with chmod go-w {path}"),
        })
    }

    /// The error for a parent folder, or for a link on the path.
    pub(super) fn error_of_parent(self, path: &Path) -> RunDirError {
        let path = path.display();
        RunDirError::Insecure(match self {
            Self::OtherOwner(owner) => {
                format!(
                    "{path}, a part of the path, belongs to another user ({owner}), who could replace what is in it"
                )
            }
            Self::GroupWritable(group) => format!(
                "{path}, a part of the path, is writable by the group {group}, whose members could replace what is in it; \
                 forbid that with chmod g-w {path} or chmod +t {path}"
            ),
            Self::WorldWritable => format!(
                "{path}, a part of the path, is writable by everybody, so any user could replace what is in it; forbid that \
                 with chmod go-w {path} or chmod +t {path}"
            ),
        })
    }
}

/// The number that the kernel shows for users outside this container, if this is one: the parents of a home directory may belong
/// to the root of the machine.
fn outside_user() -> Option<u32> {
    let map = read_to_string("/proc/self/uid_map").ok()?;
    let everybody = ["0", "0", "4294967295"];
    if map.split_ascii_whitespace().eq(everybody) {
        return None;
    }
    read_to_string("/proc/sys/kernel/overflowuid").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn opened(path: &Path) -> Result<PathBuf, String> {
        let folder = open_checked(path, &TrustedUsers::current()).map_err(|error| error.to_string())?;
        let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
        Ok(fs::read_link(format!("/proc/self/fd/{number}")).unwrap())
    }

    fn permit(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn missing_parts_are_created_for_this_user_only() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        assert_eq!(opened(&top.join("a/b")), Ok(top.join("a/b")));
        for made in ["a", "a/b"] {
            assert_eq!(fs::metadata(top.join(made)).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        assert_eq!(opened(&top.join("a/../a/./b")), Ok(top.join("a/b")));
    }

    #[test]
    fn links_of_this_user_are_followed() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path().canonicalize().unwrap();
        fs::create_dir(top.join("a")).unwrap();
        symlink("a", top.join("relative")).unwrap();
        symlink(top.join("relative/../a"), top.join("absolute")).unwrap();
        assert_eq!(opened(&top.join("absolute/b")), Ok(top.join("a/b")));
        symlink("circle", top.join("circle")).unwrap();
        assert!(opened(&top.join("circle/b")).unwrap_err().contains("Too many levels"));
    }

    #[test]
    fn a_parent_that_everybody_can_write_to_is_accepted_only_if_it_is_sticky() {
        let top = tempfile::tempdir().unwrap();
        let open = top.path().join("open");
        fs::create_dir(&open).unwrap();
        permit(&open, 0o777);
        let refused = opened(&open.join("runs")).unwrap_err();
        assert!(refused.contains("is writable by everybody") && refused.contains("chmod +t"), "{refused}");
        assert!(!open.join("runs").exists(), "nothing is created there");
        permit(&open, 0o1777);
        assert!(opened(&open.join("runs")).is_ok());
    }

    #[test]
    fn folders_that_our_own_group_can_write_to_are_closed_to_it() {
        let top = tempfile::tempdir().unwrap();
        let folders = ["runs", "runs/undelivered"].map(|name| top.path().join(name));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
            permit(folder, 0o775);
        }
        RunDir::open(&folders[0]).unwrap().folder("undelivered").unwrap();
        for folder in &folders {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o7777, 0o755, "{}", folder.display());
        }
    }

    #[test]
    fn what_others_can_have_planted_is_refused_and_left_alone() {
        let top = tempfile::tempdir().unwrap();
        let place = |name: &str| top.path().join(name);
        let run_dir = RunDir::open(top.path()).unwrap();
        for (name, mode) in [("open", 0o777), ("sticky", 0o1777), ("others", 0o703)] {
            fs::create_dir(place(name)).unwrap();
            permit(&place(name), mode);
        }
        for (name, mode) in [("a.json", 0o666), ("b.json", 0o602), ("c.json", 0o620), ("d.json", 0o600)] {
            fs::write(place(name), "{}").unwrap();
            permit(&place(name), mode);
        }
        symlink("open", place("link")).unwrap();
        symlink("d.json", place("link.json")).unwrap();
        for (name, why) in [
            ("open", "is writable by everybody; forbid that with chmod go-w"),
            ("sticky", "is writable by everybody"),
            ("others", "is writable by everybody"),
            ("link", "link is a link"),
        ] {
            let refusals = [RunDir::folder(&run_dir, name), run_dir.new_folder(name, "r_000000000001")];
            for refusal in refusals.map(|folder| folder.unwrap_err().to_string()) {
                assert!(refusal.contains(why), "{name}: {refusal}");
            }
        }
        assert_eq!(fs::read_dir(place("open")).unwrap().count(), 0);
        for (name, why) in [
            ("a.json", "is writable by everybody"),
            ("b.json", "is writable by everybody"),
            ("c.json", "is writable by the group"),
            ("link.json", "is a link"),
            ("open", "is not a regular file"),
        ] {
            let refusal = open_private(&place(name)).unwrap_err().to_string();
            assert!(refusal.contains(why), "{name}: {refusal}");
        }
        assert!(open_private(&place("d.json")).is_ok());
    }

    #[test]
    fn a_file_on_the_path_is_reported() {
        let top = tempfile::tempdir().unwrap();
        fs::write(top.path().join("file"), "").unwrap();
        assert!(opened(&top.path().join("file/runs")).unwrap_err().contains("Not a directory"));
    }

    const US: TrustedUsers = TrustedUsers { user: 1000, group: 1000, outside: None };

    fn facts(owner: u32, group: u32, mode: u32) -> OwnerAndMode {
        OwnerAndMode { owner, group, mode }
    }

    #[test]
    fn ours_is_what_we_own_and_nobody_else_can_write_to() {
        for (owner, group, mode, expected) in [
            (1000, 1000, 0o700, Ok(false)),
            (1000, 1000, 0o755, Ok(false)),
            (1000, 50, 0o2750, Ok(false)),
            // Made by hand with a umask of 002.
            (1000, 1000, 0o775, Ok(true)),
            (1000, 1000, 0o2770, Ok(true)),
            (1000, 50, 0o775, Err(OwnershipProblem::GroupWritable(50))),
            (1000, 1000, 0o777, Err(OwnershipProblem::WorldWritable)),
            (1000, 1000, 0o1777, Err(OwnershipProblem::WorldWritable)),
            (1000, 1000, 0o702, Err(OwnershipProblem::WorldWritable)),
            (1001, 1000, 0o700, Err(OwnershipProblem::OtherOwner(1001))),
            (0, 0, 0o755, Err(OwnershipProblem::OtherOwner(0))),
        ] {
            assert_eq!(US.check_own(facts(owner, group, mode)), expected, "{owner} {group} {mode:o}");
        }
    }

    #[test]
    fn only_we_and_root_can_replace_anything_in_a_parent_folder() {
        type Case<'a> = (&'a [(u32, u32, u32)], Result<(), OwnershipProblem>);
        let cases: [Case<'_>; 7] = [
            (&[(0, 0, 0o755), (0, 0, 0o1777), (0, 50, 0o1775), (1000, 1000, 0o755), (1000, 1000, 0o775)], Ok(())),
            (&[(1000, 1000, 0o1777)], Ok(())),
            (&[(0, 0, 0o777), (1000, 1000, 0o777)], Err(OwnershipProblem::WorldWritable)),
            (&[(0, 50, 0o2775), (1000, 50, 0o775)], Err(OwnershipProblem::GroupWritable(50))),
            (&[(0, 1000, 0o775)], Err(OwnershipProblem::GroupWritable(1000))),
            (&[(1001, 1001, 0o755), (1001, 1001, 0o1777)], Err(OwnershipProblem::OtherOwner(1001))),
            (&[(65534, 65534, 0o755)], Err(OwnershipProblem::OtherOwner(65534))),
        ];
        for (folders, expected) in cases {
            for &(owner, group, mode) in folders {
                assert_eq!(US.check_parent(facts(owner, group, mode)), expected, "{owner} {group} {mode:o}");
            }
        }
    }

    #[test]
    fn in_a_container_parent_folders_may_belong_to_a_user_outside() {
        let contained = TrustedUsers { outside: Some(65534), ..US };
        assert_eq!(contained.check_parent(facts(65534, 65534, 0o755)), Ok(()));
        assert_eq!(contained.check_parent(facts(65534, 65534, 0o777)), Err(OwnershipProblem::WorldWritable));
        assert_eq!(contained.check_own(facts(65534, 65534, 0o700)), Err(OwnershipProblem::OtherOwner(65534)));
    }

    #[test]
    fn root_trusts_no_other_user() {
        let root = TrustedUsers { user: 0, group: 0, outside: None };
        assert_eq!(root.check_own(facts(1000, 0, 0o700)), Err(OwnershipProblem::OtherOwner(1000)));
        assert_eq!(root.check_parent(facts(1000, 0, 0o755)), Err(OwnershipProblem::OtherOwner(1000)));
        assert_eq!(root.check_link(1000), Err(OwnershipProblem::OtherOwner(1000)));
        assert_eq!(root.check_parent(facts(0, 0, 0o1777)), Ok(()));
    }
}

//! Which owners and modes make a folder or file safe from other users. No file is opened here.

use std::fs::{Metadata, read_to_string};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
        if owner == self.user || owner == ROOT || Some(owner) == self.outside {
            Ok(())
        } else {
            Err(OwnershipProblem::OtherOwner(owner))
        }
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
    use super::*;

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
        for (owner, group, mode, expected) in [
            (0, 0, 0o755, Ok(())),
            (0, 0, 0o1777, Ok(())),
            (0, 50, 0o1775, Ok(())),
            (1000, 1000, 0o755, Ok(())),
            (1000, 1000, 0o775, Ok(())),
            (1000, 1000, 0o1777, Ok(())),
            (0, 0, 0o777, Err(OwnershipProblem::WorldWritable)),
            (0, 50, 0o2775, Err(OwnershipProblem::GroupWritable(50))),
            (0, 1000, 0o775, Err(OwnershipProblem::GroupWritable(1000))),
            (1000, 50, 0o775, Err(OwnershipProblem::GroupWritable(50))),
            (1000, 1000, 0o777, Err(OwnershipProblem::WorldWritable)),
            (1001, 1001, 0o755, Err(OwnershipProblem::OtherOwner(1001))),
            (1001, 1001, 0o1777, Err(OwnershipProblem::OtherOwner(1001))),
            (65534, 65534, 0o755, Err(OwnershipProblem::OtherOwner(65534))),
        ] {
            assert_eq!(US.check_parent(facts(owner, group, mode)), expected, "{owner} {group} {mode:o}");
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

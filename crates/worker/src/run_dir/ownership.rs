//! Whose a folder or file has to be, and who must not be able to write to it, for it to be believed. Decides only; looking is done
//! elsewhere.

use std::fs::{Metadata, read_to_string};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const ROOT: u32 = 0;
const STICKY: u32 = 0o1000;
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) mode: u32,
}

impl Facts {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o7777 }
    }
}

/// Who is trusted: the user whom this process runs as, and root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trusted {
    user: u32,
    /// The group that what this user makes belongs to; where users have groups of their own, nobody else is in it.
    group: u32,
    /// What users are shown as that do not exist in this container, of which the true root may be one.
    unknown: Option<u32>,
}

/// Why something is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    Foreign(u32),
    GroupWrites(u32),
    AllWrite,
}

impl Trusted {
    pub(super) fn current() -> Self {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { user, group, unknown: unknown_user() }
    }

    /// Whether something is ours. Says whether the group is to lose its permission to write first: it is our own group, and
    /// was not given that permission on purpose, more likely than not.
    pub(super) fn own(&self, facts: Facts) -> Result<bool, Flaw> {
        if facts.owner != self.user {
            return Err(Flaw::Foreign(facts.owner));
        }
        if facts.mode & ALL_WRITE != 0 {
            return Err(Flaw::AllWrite);
        }
        let is_open_to_group = facts.mode & GROUP_WRITES != 0;
        if is_open_to_group && facts.group != self.group {
            return Err(Flaw::GroupWrites(facts.group));
        }
        Ok(is_open_to_group)
    }

    /// Whether nobody can replace what is in a folder. In a sticky one, only the owner of the folder can replace what others
    /// have there.
    pub(super) fn above(&self, facts: Facts) -> Result<(), Flaw> {
        self.link(facts.owner)?;
        if facts.mode & STICKY != 0 {
            return Ok(());
        }
        if facts.mode & ALL_WRITE != 0 {
            return Err(Flaw::AllWrite);
        }
        let is_our_group = facts.owner == self.user && facts.group == self.group;
        if facts.mode & GROUP_WRITES != 0 && !is_our_group {
            return Err(Flaw::GroupWrites(facts.group));
        }
        Ok(())
    }

    /// Whether a link with this owner is followed.
    pub(super) fn link(&self, owner: u32) -> Result<(), Flaw> {
        if owner == self.user || owner == ROOT || Some(owner) == self.unknown {
            Ok(())
        } else {
            Err(Flaw::Foreign(owner))
        }
    }
}

impl Flaw {
    /// What is wrong with something that has to be ours.
    pub(super) fn own(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Foreign(owner) => format!("{path} belongs to another user ({owner})"),
            Self::GroupWrites(group) => {
                format!("{path} may be written by the group {group}; take that away with chmod g-w {path}")
            }
            Self::AllWrite => format!("{path} may be written by everybody; take that away with chmod go-w {path}"),
        }
    }

    /// What is wrong with a folder above it.
    pub(super) fn above(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Foreign(owner) => {
                format!("{path}, on the way there, belongs to another user ({owner}), who could replace what is in it")
            }
            Self::GroupWrites(group) => format!(
                "{path}, on the way there, may be written by the group {group}, any of whom could replace what is in it; \
                 forbid that with chmod g-w {path} or chmod +t {path}"
            ),
            Self::AllWrite => format!(
                "{path}, on the way there, may be written by everybody, any of whom could replace what is in it; forbid that \
                 with chmod go-w {path} or chmod +t {path}"
            ),
        }
    }
}

/// What the kernel shows users as that have no number here, if there are such: in a container, the folders above a home may
/// belong to the root of the machine.
fn unknown_user() -> Option<u32> {
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

    const US: Trusted = Trusted { user: 1000, group: 1000, unknown: None };

    fn facts(owner: u32, group: u32, mode: u32) -> Facts {
        Facts { owner, group, mode }
    }

    #[test]
    fn ours_is_what_we_own_and_nobody_else_can_write_to() {
        for (owner, group, mode, verdict) in [
            (1000, 1000, 0o700, Ok(false)),
            (1000, 1000, 0o755, Ok(false)),
            (1000, 50, 0o2750, Ok(false)),
            // Made by hand with a umask of 002.
            (1000, 1000, 0o775, Ok(true)),
            (1000, 1000, 0o2770, Ok(true)),
            (1000, 50, 0o775, Err(Flaw::GroupWrites(50))),
            (1000, 1000, 0o777, Err(Flaw::AllWrite)),
            (1000, 1000, 0o1777, Err(Flaw::AllWrite)),
            (1000, 1000, 0o702, Err(Flaw::AllWrite)),
            (1001, 1000, 0o700, Err(Flaw::Foreign(1001))),
            (0, 0, 0o755, Err(Flaw::Foreign(0))),
        ] {
            assert_eq!(US.own(facts(owner, group, mode)), verdict, "{owner} {group} {mode:o}");
        }
    }

    #[test]
    fn above_ours_nobody_but_us_and_root_can_replace_anything() {
        for (owner, group, mode, verdict) in [
            (0, 0, 0o755, Ok(())),
            (0, 0, 0o1777, Ok(())),
            (0, 50, 0o1775, Ok(())),
            (1000, 1000, 0o755, Ok(())),
            (1000, 1000, 0o775, Ok(())),
            (1000, 1000, 0o1777, Ok(())),
            (0, 0, 0o777, Err(Flaw::AllWrite)),
            (0, 50, 0o2775, Err(Flaw::GroupWrites(50))),
            (0, 1000, 0o775, Err(Flaw::GroupWrites(1000))),
            (1000, 50, 0o775, Err(Flaw::GroupWrites(50))),
            (1000, 1000, 0o777, Err(Flaw::AllWrite)),
            (1001, 1001, 0o755, Err(Flaw::Foreign(1001))),
            (1001, 1001, 0o1777, Err(Flaw::Foreign(1001))),
            (65534, 65534, 0o755, Err(Flaw::Foreign(65534))),
        ] {
            assert_eq!(US.above(facts(owner, group, mode)), verdict, "{owner} {group} {mode:o}");
        }
    }

    #[test]
    fn in_a_container_folders_above_may_belong_to_somebody_outside() {
        let contained = Trusted { unknown: Some(65534), ..US };
        assert_eq!(contained.above(facts(65534, 65534, 0o755)), Ok(()));
        assert_eq!(contained.above(facts(65534, 65534, 0o777)), Err(Flaw::AllWrite));
        assert_eq!(contained.own(facts(65534, 65534, 0o700)), Err(Flaw::Foreign(65534)));
    }

    #[test]
    fn root_trusts_no_other_user() {
        let root = Trusted { user: 0, group: 0, unknown: None };
        assert_eq!(root.own(facts(1000, 0, 0o700)), Err(Flaw::Foreign(1000)));
        assert_eq!(root.above(facts(1000, 0, 0o755)), Err(Flaw::Foreign(1000)));
        assert_eq!(root.link(1000), Err(Flaw::Foreign(1000)));
        assert_eq!(root.above(facts(0, 0, 0o1777)), Ok(()));
    }
}

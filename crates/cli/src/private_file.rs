//! The rule for files that hold a token or a private key: nobody but their owner may have any access to them. A key of root's may also be
//! read by a group that this process belongs to, as Kubernetes (`fsGroup`) and Debian (`ssl-cert`) give keys to services. Files that
//! systemd has put there for this service alone (`LoadCredential=`) are let in by an access list, which the mode shows as access of the
//! group; it is no access of anybody else.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use taskqueue_core::shell::shell_word;

use crate::failure::Failure;

/// Every permission of the group and of others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Every permission of the group and of others, except that the group may read.
const MORE_THAN_GROUP_READ: u32 = 0o037;

const ROOT: u32 = 0;

/// The other way out with a token file of another user.
const OTHER_WAY: &str = ", or pass the token in TASKQUEUE_TOKEN";

/// Refuses a file that others have access to, with the command that corrects it. `metadata` is that of the open file: behind
/// a link it is the target's. The mode of a pipe or a device says nothing about who can read the token.
pub(crate) fn check(name: impl Display, path: &Path, metadata: &Metadata) -> Result<(), Failure> {
    let Some(mode) = open_mode(metadata) else { return Ok(()) };
    let problem = format!("{name} holds a token, and its mode {mode:04o} gives access to others than its owner");
    Err(Failure::Usage(format!("{problem}; {}", advice(path, is_own(metadata), OTHER_WAY))))
}

/// Refuses a private key of a server that others have access to.
pub(crate) fn check_key(name: impl Display, path: &Path, metadata: &Metadata) -> Result<(), Failure> {
    let Some(mode) = open_mode(metadata) else { return Ok(()) };
    if !is_own(metadata) && is_for_group(mode, metadata.uid(), metadata.gid(), &own_groups()) {
        return Ok(());
    }
    let problem = format!("{name} is private, and its mode {mode:04o} gives access to others than its owner");
    Err(Failure::Refused(format!("{problem}; {}", advice(path, is_own(metadata), ""))))
}

/// The mode of a file that others have access to.
fn open_mode(metadata: &Metadata) -> Option<u32> {
    let mode = metadata.mode() & 0o7777;
    (metadata.is_file() && mode & GROUP_AND_OTHERS != 0).then_some(mode)
}

/// Returns whether root has given the file to one of these groups for reading, and nobody else has access.
fn is_for_group(mode: u32, owner: u32, group: u32, groups: &[u32]) -> bool {
    owner == ROOT && mode & MORE_THAN_GROUP_READ == 0 && groups.contains(&group)
}

/// The groups of this process.
fn own_groups() -> Vec<u32> {
    let others = rustix::process::getgroups().unwrap_or_default();
    others.into_iter().chain([rustix::process::getegid()]).map(rustix::process::Gid::as_raw).collect()
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// The command that helps. A file of another user that only its owner could read could not be read here any more.
fn advice(path: &Path, is_own: bool, other_way: &str) -> String {
    let file = path_word(path);
    if is_own {
        return format!("run: chmod 600 {file}");
    }
    let user = rustix::process::geteuid().as_raw();
    format!("it belongs to another user; run as root: chown {user} {file} && chmod 600 {file}{other_way}")
}

/// The path as one word of a shell. One that begins with a dash would be an option.
fn path_word(path: &Path) -> String {
    let text = path.display().to_string();
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    shell_word(&text).into_owned()
}

/// The variable in which systemd names the folder of the credentials of this service.
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";
/// Everything but reading by owner and group.
const MORE_THAN_READ: u32 = 0o7337;
/// The permissions of others.
const OTHERS: u32 = 0o007;
/// Returns whether the open file `path` with this metadata is a credential of this service.
pub(crate) fn is_credential(path: &Path, metadata: &Metadata) -> bool {
    let Some(directory) = std::env::var_os(CREDENTIALS_VARIABLE) else { return false };
    let Ok(folder) = std::fs::metadata(&directory) else { return false };
    let user = rustix::process::geteuid().as_raw();
    let trusted = |entry: &Metadata| entry.uid() == ROOT || entry.uid() == user;
    is_inside(path, &directory)
        && metadata.is_file()
        && trusted(metadata)
        && trusted(&folder)
        && is_confined(metadata.mode(), folder.mode())
}

fn is_inside(path: &Path, directory: &OsStr) -> bool {
    let directory = Path::new(directory);
    directory.is_absolute() && path.parent() == Some(directory)
}

/// Nobody can change the file, and nobody else can enter its folder.
fn is_confined(file_mode: u32, folder_mode: u32) -> bool {
    file_mode & MORE_THAN_READ == 0 && folder_mode & OTHERS == 0
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_the_owner_may_have_access_and_behind_a_link_the_target_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("token"), folder.path().join("link"));
        fs::write(&file, "hush").unwrap();
        symlink(&file, &link).unwrap();
        for (mode, accepted) in [
            (0o600, true),
            (0o400, true),
            (0o700, true),
            (0o640, false),
            (0o604, false),
            (0o644, false),
            (0o620, false),
        ] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&file, &link] {
                let checked = check("it", path, &fs::File::open(path).unwrap().metadata().unwrap());
                assert_eq!(checked.is_ok(), accepted, "{mode:o}");
                if let Err(failure) = checked {
                    let command = format!("run: chmod 600 {}", path.display());
                    assert!(failure.message().unwrap().ends_with(&command), "{failure:?}");
                    assert!(matches!(failure, Failure::Usage(_)), "{failure:?}");
                }
            }
        }
        let device = fs::File::open("/dev/zero").unwrap();
        assert_eq!(check("it", Path::new("/dev/zero"), &device.metadata().unwrap()), Ok(()));
    }

    #[test]
    fn a_key_of_root_may_be_read_by_a_group_of_this_process() {
        const OURS: u32 = 65_532;
        let cases = [
            (0o440, ROOT, OURS, true),
            (0o640, ROOT, OURS, true),
            (0o640, ROOT, 100, false),
            // Somebody else could read it, write it, or have made it.
            (0o444, ROOT, OURS, false),
            (0o660, ROOT, OURS, false),
            (0o640, 1000, OURS, false),
        ];
        for (mode, owner, group, expected) in cases {
            assert_eq!(is_for_group(mode, owner, group, &[7, OURS]), expected, "{mode:o} {owner} {group}");
        }
        assert!(own_groups().contains(&rustix::process::getegid().as_raw()));
    }

    #[test]
    fn a_file_of_another_user_is_not_made_unreadable_by_the_advice() {
        let user = rustix::process::geteuid().as_raw();
        let advice = advice(Path::new("/etc/taskqueue/token"), false, OTHER_WAY);
        assert!(
            advice.contains(&format!("chown {user} /etc/taskqueue/token && chmod 600 /etc/taskqueue/token")),
            "{advice}"
        );
        assert!(advice.contains("TASKQUEUE_TOKEN"), "{advice}");
    }

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        let cases = [
            ("/etc/taskqueue/token", "/etc/taskqueue/token"),
            ("my token", "'my token'"),
            ("it's;$HOME", r"'it'\''s;$HOME'"),
            ("-f", "./-f"),
        ];
        for (path, word) in cases {
            assert_eq!(path_word(Path::new(path)), word);
        }
    }

    #[test]
    fn a_credential_lies_in_the_folder_that_systemd_names() {
        let cases = [
            ("/run/credentials/q.service/token", "/run/credentials/q.service", true),
            ("/run/credentials/q.service/token", "/run/credentials/q.service/", true),
            ("/run/credentials/q.service/more/token", "/run/credentials/q.service", false),
            ("/etc/taskqueue/token", "/run/credentials/q.service", false),
            ("token", "", false),
            ("here/token", "here", false),
        ];
        for (path, directory, expected) in cases {
            assert_eq!(is_inside(Path::new(path), OsStr::new(directory)), expected, "{path} in {directory}");
        }
    }

    #[test]
    fn a_credential_can_be_read_only_and_others_cannot_reach_it() {
        const FILE: u32 = 0o100_000;
        let cases = [
            (0o400, 0o500, true),
            (0o440, 0o550, true),
            (0o440, 0o700, true),
            (0o440, 0o555, false),
            (0o440, 0o551, false),
            (0o444, 0o500, false),
            (0o640, 0o500, false),
            (0o460, 0o500, false),
        ];
        for (file, folder, expected) in cases {
            assert_eq!(is_confined(FILE | file, folder), expected, "{file:o} in {folder:o}");
        }
    }
}

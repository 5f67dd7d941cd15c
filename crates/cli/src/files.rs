//! Files that are read or written whole. A device or a file of something else cannot fill the memory, and a pipe without a writer does not
//! block. Here is also who may have written the files of a server, and the rule for files that hold a token or a private key; those of clients
//! are judged in `config/source.rs`.
//!
//! Nobody but their owner may have any access to secrets. A key of root's may also be read by a group that this process belongs to, as
//! Kubernetes (`fsGroup`) and Debian (`ssl-cert`) give keys to services. Files that systemd has put there for this service alone
//! (`LoadCredential=`) are let in by an access list, which the mode shows as access of the group; it is no access of anybody else.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use taskqueue_core::shell::shell_word;

use crate::failure::Failure;

/// Opens a file without waiting for the writer of a pipe. The metadata is that of the open file, which nobody can exchange in between.
pub(crate) fn open_at_once(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Reads a file that has at most so many bytes.
pub(crate) fn read_bytes(file: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("it has more than {most} bytes, so it is something else"))),
        false => Ok(bytes),
    }
}

/// Reads a text that has at most so many bytes.
pub(crate) fn read_text(file: impl Read, most: u64) -> io::Result<String> {
    String::from_utf8(read_bytes(file, most)?).map_err(|_| io::Error::other("it is not UTF-8"))
}

/// Writes a file at a free place to the disk, for its owner only.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Replaces a file at once by what `write` writes, so that nobody reads half of it. `new` is its name until then: beside it, because a
/// rename needs the same file system, and of this process alone.
pub(crate) fn replace_file(place: &Path, new: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    // What a killed process with this id may have left behind. A link of somebody else is not followed.
    drop(fs::remove_file(new));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    let replaced = write(file).and_then(|()| fs::rename(new, place));
    if replaced.is_err() {
        // The first error is the one that counts.
        drop(fs::remove_file(new));
    }
    replaced
}

/// The absolute path, for people or programs that may have another current folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A digest as people and manifests write it.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Ten thousand tokens with one pattern each take about as much.
const SERVER_FILE_BYTES: u64 = 1024 * 1024;

/// Others than the owner may not write to such a file: whoever can write it can let himself in. Everybody may read it: it holds no secret,
/// tokens only as digests of random texts, which open nothing.
const WRITE_FOR_OTHERS: u32 = 0o022;

const ROOT: u32 = 0;

/// Returns the text of a file that decides who may use a server (`--tokens`, `--config`), if nobody else can have written it, and when it was changed.
///
/// # Errors
///
/// Why not, for people, with `name` and the path.
pub(crate) fn read_server_file(name: &str, path: &Path) -> Result<(String, SystemTime), String> {
    let name = format!("{name} {}", path.display());
    let cannot_read = |error: io::Error| format!("cannot read {name}: {error}");
    let (file, metadata) = open_at_once(path).map_err(cannot_read)?;
    check_server_file(&metadata).map_err(|problem| format!("{name} {problem}"))?;
    let text = read_text(&file, SERVER_FILE_BYTES).map_err(cannot_read)?;
    // Looked up after the text was read: it may have been changed meanwhile.
    let modified = file.metadata().and_then(|metadata| metadata.modified()).map_err(cannot_read)?;
    Ok((text, modified))
}

/// Refuses a file that somebody else can have written. Behind a link the target counts.
pub(crate) fn check_server_file(metadata: &Metadata) -> Result<(), String> {
    let (mode, owner, me) = (metadata.mode() & 0o7777, metadata.uid(), rustix::process::geteuid().as_raw());
    if !metadata.is_file() {
        return Err("is not a regular file".to_owned());
    }
    if mode & WRITE_FOR_OTHERS != 0 {
        return Err(format!("can be changed by others than its owner (mode {mode:04o}); run: chmod go-w on it"));
    }
    if owner != me && owner != ROOT {
        return Err(format!("belongs to another user ({owner}), who could let anybody in; chown it to root or {me}"));
    }
    Ok(())
}

/// Returns the number of the line with the byte `start`.
pub(crate) fn toml_line(text: &str, start: usize) -> usize {
    text.get(..start).unwrap_or(text).matches('\n').count() + 1
}

/// Returns the line and the message of an error. What stands there is never shown: it may be a token. The library's own text would quote the line.
pub(crate) fn describe_toml_error(text: &str, error: &toml::de::Error) -> String {
    let start = error.span().map_or(0, |span| span.start);
    format!("line {}: {}", toml_line(text, start), error.message().replace('\n', "; "))
}

/// Every permission of the group and of others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Every permission of the group and of others, except that the group may read.
const MORE_THAN_GROUP_READ: u32 = 0o037;

/// The other way out with a token file of another user.
const OTHER_WAY: &str = ", or pass the token in TASKQUEUE_TOKEN";

/// Refuses a file that others have access to, with the command that corrects it. `metadata` is that of the open file: behind
/// a link it is the target's. The mode of a pipe or a device says nothing about who can read the token.
pub(crate) fn check_private(name: impl Display, path: &Path, metadata: &Metadata) -> Result<(), Failure> {
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
    fn a_file_that_others_can_change_is_refused_and_one_that_they_can_read_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("tokens.toml"), folder.path().join("link"));
        fs::write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        for (mode, accepted) in [(0o600, true), (0o644, true), (0o444, true), (0o620, false), (0o602, false)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&file, &link] {
                let loaded = read_server_file("the file", path);
                assert_eq!(loaded.is_ok(), accepted, "{mode:o}: {loaded:?}");
                assert!(loaded.err().is_none_or(|problem| problem.contains("chmod go-w")), "{mode:o}");
            }
        }
    }

    #[test]
    fn what_is_no_file_of_a_sensible_size_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        assert!(read_server_file("the file", &path).unwrap_err().starts_with("cannot read the file"));
        assert!(read_server_file("the file", folder.path()).unwrap_err().contains("is not a regular file"));
        assert!(read_server_file("the file", Path::new("/dev/zero")).unwrap_err().contains("is not a regular file"));
        let write = |text: String| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("#".repeat(1024 * 1024 - 1) + "\n");
        assert_eq!(read_server_file("the file", &path).unwrap().0.len(), 1024 * 1024);
        write("#".repeat(1024 * 1024) + "\n");
        assert!(read_server_file("the file", &path).unwrap_err().contains("more than 1048576 bytes"));
    }

    #[test]
    fn only_the_owner_may_have_access_and_behind_a_link_the_target_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("token"), folder.path().join("link"));
        fs::write(&file, "hush").unwrap();
        symlink(&file, &link).unwrap();
        let private = [0o600, 0o400, 0o700].map(|mode| (mode, true));
        let shared = [0o640, 0o604, 0o644, 0o620].map(|mode| (mode, false));
        for (mode, accepted) in private.into_iter().chain(shared) {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&file, &link] {
                let checked = check_private("it", path, &fs::File::open(path).unwrap().metadata().unwrap());
                assert_eq!(checked.is_ok(), accepted, "{mode:o}");
                if let Err(failure) = checked {
                    let command = format!("run: chmod 600 {}", path.display());
                    assert!(failure.message().unwrap().ends_with(&command), "{failure:?}");
                    assert!(matches!(failure, Failure::Usage(_)), "{failure:?}");
                }
            }
        }
        let device = fs::File::open("/dev/zero").unwrap();
        assert_eq!(check_private("it", Path::new("/dev/zero"), &device.metadata().unwrap()), Ok(()));
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
        let command = format!("chown {user} /etc/taskqueue/token && chmod 600 /etc/taskqueue/token");
        assert!(advice.contains(&command), "{advice}");
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
        let cases: [(&[(u32, u32)], bool); 2] = [
            (&[(0o400, 0o500), (0o440, 0o550), (0o440, 0o700)], true),
            (&[(0o440, 0o555), (0o440, 0o551), (0o444, 0o500), (0o640, 0o500), (0o460, 0o500)], false),
        ];
        for (modes, expected) in cases {
            for &(file, folder) in modes {
                assert_eq!(is_confined(FILE | file, folder), expected, "{file:o} in {folder:o}");
            }
        }
    }
}

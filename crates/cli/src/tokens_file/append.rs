//! Adds a token to a tokens file: the new content replaces the old one at once, so that a server never sees half of it and a crash
//! leaves the old file. Two commands at a time add one after the other.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::{FileToken, NAME, parse};
use crate::server_file::{check, read};

/// For a new file: everybody may read digests, which open nothing. The server may be another user.
const MODE: u32 = 0o644;

/// Another command replaces the file that this one waits for; nobody does that so often.
const TRIES: usize = 100;

/// Adds the token, and creates the file if it is missing.
///
/// # Errors
///
/// Why not, for people. The file is as before.
pub(crate) fn append(path: &Path, token: &FileToken) -> Result<(), String> {
    let cannot_write = |error: io::Error| format!("cannot write the tokens file {}: {error}", path.display());
    let file = own(path).map_err(cannot_write)?;
    let metadata = file.metadata().map_err(cannot_write)?;
    check(&metadata).map_err(|problem| format!("the tokens file {} {problem}", path.display()))?;
    let (old, _) = read(NAME, path)?;
    let gap = if old.is_empty() || old.ends_with("\n\n") {
        ""
    } else if old.ends_with('\n') {
        "\n"
    } else {
        "\n\n"
    };
    let text = format!("{old}{gap}{token}");
    // Also finds a name that is taken, and mistakes that were there before.
    parse::parse(&text).map_err(|mistake| format!("the tokens file {} with this token, {mistake}", path.display()))?;
    // A link stays one: its target is replaced.
    let target = fs::canonicalize(path).map_err(cannot_write)?;
    replace(&target, text.as_bytes(), &metadata).map_err(cannot_write)
}

/// Opens the file, or creates it empty, and waits until no other command changes it.
fn own(path: &Path) -> io::Result<File> {
    for _ in 0..TRIES {
        let mut options = OpenOptions::new();
        options.read(true).append(true).mode(MODE);
        let file = match options.create_new(true).open(path) {
            // Whatever the umask of the command is: that is meant for the token, which it prints.
            Ok(made) => made.set_permissions(Permissions::from_mode(MODE)).map(|()| made)?,
            // Also a link to nothing.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                options.create_new(false).create(true).open(path)?
            }
            Err(error) => return Err(error),
        };
        file.lock()?;
        let (ours, current) = (file.metadata()?, fs::metadata(path)?);
        if (ours.dev(), ours.ino()) == (current.dev(), current.ino()) {
            return Ok(file);
        }
    }
    Err(io::Error::other("it is being replaced all the time"))
}

/// Puts a new file in the place of the old one, with its mode and owner.
fn replace(target: &Path, text: &[u8], old: &fs::Metadata) -> io::Result<()> {
    let new = new_name(target);
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        file.sync_all()?;
        fs::rename(&new, target)
    })();
    if written.is_err() {
        drop(fs::remove_file(&new));
    }
    written
}

/// Beside the target: a rename needs the same file system.
fn new_name(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::thread;

    use taskqueue_core::access::{Grant, QueuePattern, Scope};

    use super::super::load;
    use super::*;

    fn token(number: u8) -> FileToken {
        let queues = QueuePattern::parse("*").into_iter().collect();
        let grant = Grant { scopes: [Scope::Read].into_iter().collect(), queues };
        FileToken { name: format!("n{number}"), digest: [number; 32], grant, expires_at: None }
    }

    fn names(path: &Path) -> Vec<String> {
        load(path).unwrap().into_iter().map(|token| token.name).collect()
    }

    #[test]
    fn a_token_is_added_behind_what_is_there_and_a_taken_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("tokens.toml"), folder.path().join("link"));
        append(&path, &token(1)).unwrap();
        fs::write(&path, format!("# ours\n{}", token(1).to_string().trim_end())).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink("tokens.toml", &link).unwrap();
        append(&link, &token(2)).unwrap();
        assert_eq!(names(&path), ["n1", "n2"]);
        assert!(fs::read_to_string(&path).unwrap().starts_with("# ours\n[[token]]\nname = \"n1\""));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(append(&path, &token(2)).unwrap_err().contains("the name n2 is already in line"));
        assert_eq!(names(&path), ["n1", "n2"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn a_file_with_mistakes_or_for_others_to_change_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, "[[tokens]]\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(append(&path, &token(1)).unwrap_err().contains("line 1: unknown field"));
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o622)).unwrap();
        assert!(append(&path, &token(1)).unwrap_err().contains("can be changed by others"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    fn tokens_that_are_added_at_once_are_all_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        thread::scope(|scope| {
            for number in 1..=8 {
                let path = &path;
                scope.spawn(move || append(path, &token(number)).unwrap());
            }
        });
        let mut names = names(&path);
        names.sort();
        assert_eq!(names, ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"]);
    }
}

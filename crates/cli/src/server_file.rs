//! Files of a server that decide who may use it: `--tokens` and `--config`. Everybody may read them: they hold no secret, the tokens only
//! as digests of random texts, which open nothing. Whoever can write them can let himself in.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use crate::files::{open_at_once, read_text};

/// Ten thousand tokens with one pattern each take about as much.
const FILE_BYTES: u64 = 1024 * 1024;

/// Others than the owner may not write to the file.
const WRITE_FOR_OTHERS: u32 = 0o022;

const ROOT: u32 = 0;

/// The text of a file, if nobody else can have written it, and when it was changed.
///
/// # Errors
///
/// Why not, for people, with `name` and the path.
pub(crate) fn read(name: &str, path: &Path) -> Result<(String, SystemTime), String> {
    let name = format!("{name} {}", path.display());
    let cannot_read = |error: std::io::Error| format!("cannot read {name}: {error}");
    let (file, metadata) = open_at_once(path).map_err(cannot_read)?;
    check(&metadata).map_err(|problem| format!("{name} {problem}"))?;
    let text = read_text(&file, FILE_BYTES).map_err(cannot_read)?;
    // Looked up after the text was read: it may have been changed meanwhile.
    let modified = file.metadata().and_then(|metadata| metadata.modified()).map_err(cannot_read)?;
    Ok((text, modified))
}

/// Behind a link the target counts.
pub(crate) fn check(metadata: &Metadata) -> Result<(), String> {
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
                let loaded = read("the file", path);
                assert_eq!(loaded.is_ok(), accepted, "{mode:o}: {loaded:?}");
                assert!(loaded.err().is_none_or(|problem| problem.contains("chmod go-w")), "{mode:o}");
            }
        }
    }

    #[test]
    fn what_is_no_file_of_a_sensible_size_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        assert!(read("the file", &path).unwrap_err().starts_with("cannot read the file"));
        assert!(read("the file", folder.path()).unwrap_err().contains("is not a regular file"));
        assert!(read("the file", Path::new("/dev/zero")).unwrap_err().contains("is not a regular file"));
        let write = |text: String| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("#".repeat(1024 * 1024 - 1) + "\n");
        assert_eq!(read("the file", &path).unwrap().0.len(), 1024 * 1024);
        write("#".repeat(1024 * 1024) + "\n");
        assert!(read("the file", &path).unwrap_err().contains("more than 1048576 bytes"));
    }
}

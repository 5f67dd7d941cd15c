//! Files that are read or written whole. A device or a file of something else cannot fill the memory, and a pipe without a writer does not
//! block. Here is also who may have written the files of a server; secrets are judged in `private_file.rs`, those of clients in
//! `config/file.rs`.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;

/// Opens a file without waiting for the writer of a pipe. The metadata is that of the open file, which nobody can exchange in between.
pub(crate) fn open_at_once(path: &Path) -> io::Result<(File, Metadata)> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
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
}

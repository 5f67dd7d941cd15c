//! Files that are read whole: a device or a file of something else cannot fill the memory, and a pipe without a writer does not block.
//! Who may have written or may read them is judged in `private_file.rs`, `server_file.rs` and `config/file.rs`.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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

/// A digest as people and manifests write it.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

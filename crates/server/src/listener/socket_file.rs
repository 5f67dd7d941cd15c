//! The file of a Unix socket: made so that nobody else can ever connect, replaced only when its server is dead,
//! removed when ours stops.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::timeout;
use tracing::warn;

use super::{BACKLOG, ListenError};

/// Only the user of the server may connect.
const MODE: u32 = 0o600;

/// How long an existing socket may take to show that somebody is behind it.
const KNOCK: Duration = Duration::from_secs(1);

/// The file of a socket that we made; removed with this value.
#[derive(Debug)]
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
    /// Device and inode: another server may have put its own file in the place of ours.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if !ours {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            warn!(%error, path = %self.path.display(), "the socket file could not be removed");
        }
    }
}

/// Listens on a socket file at `path`.
pub(super) async fn bind(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    remove_stale(path).await?;
    make(path).map_err(|error| ListenError::from_io(&format!("unix:{}", path.display()), &error))
}

/// The file gets its mode after `bind`, which makes it, and before `listen`, without which nobody can connect.
fn make(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let made = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.into(), identity: (made.dev(), made.ino()) };
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok((socket.listen(BACKLOG)?, file))
}

/// Removes the socket file of a dead server. Anything else at that path is refused.
async fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let address = format!("unix:{}", path.display());
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ListenError::from_io(&address, &error)),
    };
    if !found.file_type().is_socket() {
        return Err(ListenError::NotASocket(path.into()));
    }
    match timeout(KNOCK, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| ListenError::from_io(&address, &error))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(ListenError::from_io(&address, &error))
        }
        // It answers, or is too busy to: somebody is behind it.
        _ => Err(ListenError::InUse(address)),
    }
}

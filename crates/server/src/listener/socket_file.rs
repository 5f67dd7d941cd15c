//! The file of a Unix socket: only its user can connect at any moment; it is replaced only when no server listens at it,
//! and removed when this server stops.

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

/// How long an existing socket may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The file of our socket; removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
    /// Device and inode: another server may have replaced the file by its own.
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
    create(path).map_err(|error| ListenError::from_io(&format!("unix:{}", path.display()), &error))
}

/// The file gets its mode after `bind`, which creates it, and before `listen`, without which no client can connect.
fn create(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let created = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.into(), identity: (created.dev(), created.ino()) };
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok((socket.listen(BACKLOG)?, file))
}

/// Removes a socket file at which no server listens. Anything else at that path is an error.
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
    match timeout(CONNECT_TIMEOUT, UnixStream::connect(path)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| ListenError::from_io(&address, &error))
        }
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(ListenError::from_io(&address, &error))
        }
        // A server accepts connections there, or is too busy to.
        _ => Err(ListenError::InUse(address)),
    }
}

//! Listening at an address and accepting connections, over TCP, with or without TLS, or a Unix socket. An address that other machines can
//! reach needs a token; that is checked here, before anything is bound. Only the user of the server can connect to its socket file at any
//! moment; the file is replaced only when no server listens at it, and removed when this server stops.

mod stream;

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, io};

use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixSocket, UnixStream, lookup_host};
use tokio::time::timeout;
use tracing::{debug, warn};

pub use self::stream::Stream;
pub(crate) use self::stream::{ClientAddress, PeerState};
use crate::browser_check::Hosts;
use crate::tls::Tls;

/// Connections that may wait to be accepted. The system caps this at its own limit (4096 on today's Linux).
const BACKLOG: u32 = 4096;

/// How much of an answer the system may buffer for a client; Linux counts its own overhead and allows twice as much.
/// At a distance of 50 ms this lets 2.6 MB/s through.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;

/// The reason why an address cannot be listened at. The text says what is wrong; the caller adds what to do about it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Other machines can reach this address, and there is no token.
    #[error("{0} can be reached from other machines and no token is configured")]
    NeedsToken(String),
    /// Another process listens there.
    #[error("{0} is in use by another process")]
    InUse(String),
    /// A Unix socket with TLS: it stays on this machine, and its file says who may use it.
    #[error("a Unix socket has no TLS")]
    UnixWithTls,
    /// The path of the socket is another kind of file.
    #[error("{} exists and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// Any other error of the system: the address and the reason.
    #[error("cannot listen on {0}: {1}")]
    Failed(String, String),
}

impl ListenError {
    fn from_io(address: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::AddrInUse {
            return Self::InUse(address.into());
        }
        Self::Failed(address.into(), error.to_string())
    }
}

#[derive(Debug)]
pub struct Listener {
    kind: Socket,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Listens at `address`. Without a token only this machine may be able to reach it.
    pub async fn bind(address: &ListenAddress, has_token: bool) -> Result<Self, ListenError> {
        let failed = |error: io::Error| ListenError::from_io(&address.to_string(), &error);
        match address {
            ListenAddress::Unix(path) => {
                remove_stale_socket(path).await?;
                let (listener, file) = create_socket(path).map_err(failed)?;
                Ok(Self { kind: Socket::Unix(listener, file), tls: None })
            }
            ListenAddress::Tcp { .. } => {
                let found = Self::check(address, has_token).await?;
                let listener = bind_first(&found).map_err(failed)?;
                let local = listener.local_addr().map_err(failed)?;
                Ok(Self { kind: Socket::Tcp(listener, local), tls: None })
            }
        }
    }

    /// Returns the addresses and ports that `address` means over TCP, if a server may listen there. Nothing is bound.
    pub async fn check(address: &ListenAddress, has_token: bool) -> Result<Vec<SocketAddr>, ListenError> {
        let ListenAddress::Tcp { host, port } = address else { return Ok(Vec::new()) };
        let failed = |error: io::Error| ListenError::from_io(&address.to_string(), &error);
        let found: Vec<SocketAddr> = lookup_host((host.as_str(), *port)).await.map_err(failed)?.collect();
        let open = found.iter().find(|found| !found.ip().to_canonical().is_loopback()).map(ToString::to_string);
        open.filter(|_| !has_token).map_or(Ok(found), |open| Err(ListenError::NeedsToken(open)))
    }

    /// Returns this listener with TLS.
    pub fn with_tls(self, tls: Tls) -> Result<Self, ListenError> {
        if self.is_unix() { Err(ListenError::UnixWithTls) } else { Ok(Self { tls: Some(tls), ..self }) }
    }

    /// Returns the TLS of this listener, if it has one.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns the address and port over TCP.
    pub fn local_address(&self) -> Option<SocketAddr> {
        if let Socket::Tcp(_, address) = &self.kind { Some(*address) } else { None }
    }

    /// `http://ADDRESS:PORT`, `https://ADDRESS:PORT` or `unix:PATH`.
    pub fn base_url(&self) -> String {
        match &self.kind {
            Socket::Tcp(_, address) if self.tls.is_some() => format!("https://{address}"),
            Socket::Tcp(_, address) => format!("http://{address}"),
            Socket::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }

    /// Returns the address of the dashboard for a browser on this machine; `None` for a Unix socket.
    pub fn dashboard_url(&self) -> Option<String> {
        let mut address = self.local_address()?;
        if address.ip().is_unspecified() {
            let this_machine = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(this_machine);
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{address}/ui/"))
    }

    /// Returns whether this is a Unix socket, which no browser can connect to.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.kind, Socket::Unix(..))
    }

    /// Returns whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        matches!(&self.kind, Socket::Tcp(_, address) if !address.ip().to_canonical().is_loopback())
    }

    /// Returns the hosts for which metrics are given here without a token. Other machines may call this one as they like; where only
    /// this machine can connect, a foreign name means a web page.
    pub(crate) fn hosts(&self) -> Hosts {
        if self.is_unix() || self.is_public() { Hosts::Any } else { Hosts::default() }
    }

    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match &self.kind {
            Socket::Tcp(listener, _) => {
                let (stream, _) = listener.accept().await?;
                // An answer is sent with one or two writes; Nagle's algorithm would only delay it.
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "a connection stays without TCP_NODELAY");
                }
                Ok(Stream::Tcp(stream))
            }
            Socket::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

/// Listens at the first address that can be bound: a host name may have several.
fn bind_first(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in addresses {
        match bind_tcp(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Old connections of a server that just ended must not prevent the next start.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it. By default the system buffers up to 4 MiB for each client that does not read.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// The address to listen at, as a text: `HOST:PORT`, `[::1]:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A host name or IP address and a port; port 0 picks a free one.
    Tcp {
        /// Without brackets.
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write HOST:PORT, [IPV6]:PORT or unix:PATH";
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(FORM) } else { Ok(Self::Unix(path.into())) };
        }
        let (host, port) = text.rsplit_once(':').ok_or(FORM)?;
        let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inside) if inside.parse::<std::net::Ipv6Addr>().is_ok() => inside,
            None if !host.is_empty() && !host.contains([':', '[', ']', '/', ' ']) => host,
            _ => return Err(FORM),
        };
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(FORM);
        }
        let port = port.parse().map_err(|_| "the port is a number from 0 to 65535")?;
        Ok(Self::Tcp { host: host.into(), port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Only the user of the server may connect.
const SOCKET_MODE: u32 = 0o600;

/// How long an existing socket may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The file of our socket; removed when this is dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
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

/// Creates the socket and its file. The file gets its mode after `bind`, which creates it, and before `listen`, without which
/// no client can connect.
fn create_socket(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    let created = fs::symlink_metadata(path)?;
    let file = SocketFile { path: path.into(), identity: (created.dev(), created.ino()) };
    fs::set_permissions(path, Permissions::from_mode(SOCKET_MODE))?;
    Ok((socket.listen(BACKLOG)?, file))
}

/// Removes a socket file at which no server listens. Anything else at that path is an error.
async fn remove_stale_socket(path: &Path) -> Result<(), ListenError> {
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

#[cfg(test)]
mod tests;

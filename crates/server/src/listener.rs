//! Listening at an address and accepting connections, over TCP, with or without TLS, or a Unix socket. An address that other machines can reach
//! needs a token; that is checked here, before anything is bound.

mod address;
mod socket_file;
mod stream;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use tokio::net::{TcpListener, TcpSocket, UnixListener, lookup_host};
use tracing::debug;

pub use self::address::ListenAddress;
use self::socket_file::SocketFile;
pub(crate) use self::stream::PeerState;
pub use self::stream::Stream;
use crate::browser_check::Hosts;
use crate::tls::Tls;

/// Connections that may wait to be accepted. The system caps this at its own limit (4096 on today's Linux).
const BACKLOG: u32 = 4096;

/// How much of an answer the system may buffer for a client; Linux counts its own overhead and allows twice as much.
/// At a distance of 50 ms this lets 2.6 MB/s through.
const SEND_BUFFER_BYTES: u32 = 128 * 1024;

/// Why an address cannot be listened at. The text says what is wrong; the caller adds what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub enum ListenError {
    /// Other machines can reach this address, and there is no token.
    NeedsToken(String),
    /// Another process listens there.
    InUse(String),
    /// A Unix socket with TLS: it stays on this machine, and its file says who may use it.
    UnixWithTls,
    /// The path of the socket is another kind of file.
    NotASocket(PathBuf),
    /// Any other error of the system: the address and the reason.
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

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsToken(address) => {
                write!(f, "{address} can be reached from other machines and no token is configured")
            }
            Self::InUse(address) => write!(f, "{address} is in use by another process"),
            Self::UnixWithTls => f.write_str("a Unix socket has no TLS"),
            Self::NotASocket(path) => write!(f, "{} exists and is not a socket", path.display()),
            Self::Failed(address, reason) => write!(f, "cannot listen on {address}: {reason}"),
        }
    }
}

impl std::error::Error for ListenError {}

#[derive(Debug)]
pub struct Listener {
    kind: Kind,
    tls: Option<Tls>,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Listens at `address`. Without a token only this machine may be able to reach it.
    pub async fn bind(address: &ListenAddress, has_token: bool) -> Result<Self, ListenError> {
        match address {
            ListenAddress::Unix(path) => {
                let (listener, file) = socket_file::bind(path).await?;
                Ok(Self { kind: Kind::Unix(listener, file), tls: None })
            }
            ListenAddress::Tcp { .. } => {
                let failed = |error: io::Error| ListenError::from_io(&address.to_string(), &error);
                let found = Self::check(address, has_token).await?;
                let listener = bind_first(&found).map_err(failed)?;
                let local = listener.local_addr().map_err(failed)?;
                Ok(Self { kind: Kind::Tcp(listener, local), tls: None })
            }
        }
    }

    /// The addresses and ports that `address` means over TCP, if a server may listen there. Nothing is bound.
    pub async fn check(address: &ListenAddress, has_token: bool) -> Result<Vec<SocketAddr>, ListenError> {
        let ListenAddress::Tcp { host, port } = address else { return Ok(Vec::new()) };
        let failed = |error: io::Error| ListenError::from_io(&address.to_string(), &error);
        let found: Vec<SocketAddr> = lookup_host((host.as_str(), *port)).await.map_err(failed)?.collect();
        let open = found.iter().find(|found| !found.ip().to_canonical().is_loopback()).map(ToString::to_string);
        match open.filter(|_| !has_token) {
            Some(open) => Err(ListenError::NeedsToken(open)),
            None => Ok(found),
        }
    }

    /// The same listener with TLS.
    pub fn with_tls(self, tls: Tls) -> Result<Self, ListenError> {
        if self.is_unix() { Err(ListenError::UnixWithTls) } else { Ok(Self { tls: Some(tls), ..self }) }
    }

    /// The TLS of this listener, if it has one.
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The address and port over TCP.
    pub fn local_address(&self) -> Option<SocketAddr> {
        if let Kind::Tcp(_, address) = &self.kind { Some(*address) } else { None }
    }

    /// `http://ADDRESS:PORT`, `https://ADDRESS:PORT` or `unix:PATH`.
    pub fn base_url(&self) -> String {
        match &self.kind {
            Kind::Tcp(_, address) if self.tls.is_some() => format!("https://{address}"),
            Kind::Tcp(_, address) => format!("http://{address}"),
            Kind::Unix(_, file) => format!("unix:{}", file.path.display()),
        }
    }

    /// The address of the dashboard for a browser on this machine; none for a Unix socket.
    pub fn dashboard_url(&self) -> Option<String> {
        let mut address = self.local_address()?;
        if address.ip().is_unspecified() {
            let this_machine = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            address.set_ip(this_machine);
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{address}/ui/"))
    }

    /// Whether this is a Unix socket, which no browser can connect to.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.kind, Kind::Unix(..))
    }

    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        matches!(&self.kind, Kind::Tcp(_, address) if !address.ip().to_canonical().is_loopback())
    }

    /// The hosts for which metrics are given here without a token. Other machines may call this one as they like; where only
    /// this machine can connect, a foreign name means a web page.
    pub(crate) fn hosts(&self) -> Hosts {
        if self.is_unix() || self.is_public() { Hosts::Any } else { Hosts::default() }
    }

    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match &self.kind {
            Kind::Tcp(listener, _) => {
                let (stream, _) = listener.accept().await?;
                // An answer is sent with one or two writes; Nagle's algorithm would only delay it.
                if let Err(error) = stream.set_nodelay(true) {
                    debug!(%error, "a connection stays without TCP_NODELAY");
                }
                Ok(Stream::Tcp(stream))
            }
            Kind::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
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

#[cfg(test)]
mod tests;

//! Where a connection comes from, for the log.

use std::fmt;
use std::net::SocketAddr;

use crate::listener::Stream;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClientAddress {
    Tcp(SocketAddr),
    /// A process on this machine.
    Unix,
    /// The client has already gone, or there is no connection.
    #[default]
    Unknown,
}

impl ClientAddress {
    pub(crate) fn of(stream: &Stream) -> Self {
        match stream {
            Stream::Tcp(stream) => stream.peer_addr().map_or(Self::Unknown, Self::Tcp),
            Stream::Tls(stream) => stream.socket().peer_addr().map_or(Self::Unknown, Self::Tcp),
            Stream::Unix(_) => Self::Unix,
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix => f.write_str("unix"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

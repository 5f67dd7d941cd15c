//! The address to listen at, as a text: `HOST:PORT`, `[::1]:PORT` or `unix:PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written_alike() {
        for text in ["127.0.0.1:8000", "localhost:0", "[::1]:8000", "0.0.0.0:65535", "unix:/run/tq.sock", "unix:tq"] {
            assert_eq!(text.parse::<ListenAddress>().map(|address| address.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let cases = [
            "",
            ":",
            "8000",
            ":8000",
            "localhost",
            "localhost:",
            "localhost:http",
            "localhost:+80",
            "localhost:65536",
            "::1:8000",
            "[::1]",
            "[::1]8000",
            "[localhost]:80",
            "[]:80",
            "unix:",
            "http://localhost:80",
            "a b:80",
        ];
        for text in cases {
            assert!(text.parse::<ListenAddress>().is_err(), "{text:?}");
        }
    }
}

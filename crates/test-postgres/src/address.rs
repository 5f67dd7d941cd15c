//! The URLs of the databases of a server.

use std::path::Path;

use crate::wait::TIMEOUT;

/// The database that every server has.
pub(crate) const MAINTENANCE: &str = "postgres";

/// The superuser of servers that this crate starts.
pub(crate) const SUPERUSER: &str = "postgres";

/// The address of a server, with the account of a superuser.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// User, with or without a password.
    account: String,
    host_and_port: String,
    /// Parameters with their question mark, or empty.
    parameters: String,
    /// Folder and port of the socket, as host and port.
    socket: Option<String>,
}

impl Address {
    /// A server that this crate starts: its port on the loopback address, and the directory of its socket.
    pub(crate) fn local(directory: &Path, port: u16) -> Self {
        let directory = encode(directory.to_str().expect("a temporary directory has a plain name"));
        Self {
            account: SUPERUSER.to_owned(),
            host_and_port: format!("127.0.0.1:{port}"),
            parameters: String::new(),
            socket: Some(format!("{directory}:{port}")),
        }
    }

    /// A server that was started elsewhere. The database of the URL is not used.
    pub(crate) fn external(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let (rest, parameters) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (account, host_and_port) = rest.split('/').next()?.rsplit_once('@')?;
        let (account, host_and_port) = (account.to_owned(), host_and_port.to_owned());
        Some(Self { account, host_and_port, parameters: parameters.to_owned(), socket: None })
    }

    pub(crate) fn url(&self, database: &str) -> String {
        self.url_as(&self.account, database)
    }

    /// The URL for another account, already encoded.
    pub(crate) fn url_as(&self, account: &str, database: &str) -> String {
        format!("postgres://{account}@{}/{database}{}", self.host_and_port, self.parameters)
    }

    /// The same server through a pooler.
    pub(crate) fn through(&self, host_and_port: String) -> Self {
        Self { host_and_port, socket: None, ..self.clone() }
    }

    #[track_caller]
    pub(crate) fn socket_url(&self, database: &str) -> String {
        let socket = self.socket.as_ref().expect("the socket of a server of TASKQUEUE_TEST_POSTGRES is not known");
        format!("postgres://{}@{socket}/{database}", self.account)
    }
}

/// A URL that lets connecting take as long as a busy machine may need; a server would give its first connection 3 seconds. One
/// that says itself how long stays as it is.
pub fn patient(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    if url.contains("connect_timeout=") {
        return url.to_owned();
    }
    format!("{url}{sign}connect_timeout={}", TIMEOUT.as_secs())
}

/// Percent-encodes all but unreserved characters.
pub(crate) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

//! How a server is reached: the URLs of its databases.

use std::path::Path;

/// The database that every server has, for statements that belong to none.
pub(crate) const MAINTENANCE: &str = "postgres";

/// The superuser of a server of ours.
pub(crate) const SUPERUSER: &str = "postgres";

/// The address of a server, with the account of a superuser.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// User, perhaps with a password.
    account: String,
    /// Host and port.
    place: String,
    /// Parameters with their question mark, or nothing.
    parameters: String,
    /// The place of the socket in the form of a host and port.
    socket: Option<String>,
}

impl Address {
    /// A server of ours: its port on the loopback address, and the directory of its socket.
    pub(crate) fn local(directory: &Path, port: u16) -> Self {
        let directory = encode(directory.to_str().expect("a temporary directory has a plain name"));
        Self {
            account: SUPERUSER.to_owned(),
            place: format!("127.0.0.1:{port}"),
            parameters: String::new(),
            socket: Some(format!("{directory}:{port}")),
        }
    }

    /// A server that somebody else runs; whatever database the URL names is not used.
    pub(crate) fn foreign(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let (rest, parameters) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let (account, place) = rest.split('/').next()?.rsplit_once('@')?;
        let (account, place, parameters) = (account.to_owned(), place.to_owned(), parameters.to_owned());
        Some(Self { account, place, parameters, socket: None })
    }

    pub(crate) fn url(&self, database: &str) -> String {
        self.url_as(&self.account, database)
    }

    /// The URL for another account, already encoded.
    pub(crate) fn url_as(&self, account: &str, database: &str) -> String {
        format!("postgres://{account}@{}/{database}{}", self.place, self.parameters)
    }

    /// The same server at another place, such as a pooler in front of it.
    pub(crate) fn behind(&self, place: String) -> Self {
        Self { place, socket: None, ..self.clone() }
    }

    #[track_caller]
    pub(crate) fn socket_url(&self, database: &str) -> String {
        let socket = self.socket.as_ref().expect("the socket of a server of TASKQUEUE_TEST_POSTGRES is not known");
        format!("postgres://{}@{socket}/{database}", self.account)
    }
}

/// Percent-encodes everything but the characters that never need it.
pub(crate) fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}

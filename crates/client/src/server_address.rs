//! The address of the server: a base URL over TCP or the path of a Unix socket, and whether a token can be sent there safely.

use std::path::{Path, PathBuf};

use reqwest::Url;
use taskqueue_api::paths;

use crate::call::Call;
use crate::config::ConfigError;

/// What every path of the API begins with.
const API_PATH: &str = "/api/v2";
/// What a base URL looks like.
const FORM: &str = "begin with http://, https:// or unix:";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddress {
    /// The URL that paths are appended to. For a Unix socket it gives only the `Host` header.
    url: Url,
    socket: Option<PathBuf>,
}

impl ServerAddress {
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::unix(path);
        }
        if !text.contains("://") {
            return Self::without_scheme(text);
        }
        let url = Url::parse(text).map_err(|error| ConfigError::BaseUrl { reason: error.to_string() })?;
        let reason = if !matches!(url.scheme(), "http" | "https") {
            FORM
        } else if !url.username().is_empty() || url.password().is_some() {
            "give the token separately, not in the URL"
        } else if url.query().is_some() || url.fragment().is_some() {
            "leave out the query and the fragment"
        } else {
            return Ok(Self { url: without_api_path(url), socket: None });
        };
        Err(ConfigError::BaseUrl { reason: reason.to_owned() })
    }

    /// `127.0.0.1:8000` and `localhost:8000` are this machine, where plain HTTP is usual and safe. For any other host nobody
    /// but the user can know whether the connection has to be encrypted.
    fn without_scheme(text: &str) -> Result<Self, ConfigError> {
        let plain = Self::parse(&format!("http://{text}")).ok().filter(|_| !text.is_empty());
        match plain {
            Some(address) if address.is_private() => Ok(address),
            Some(_) if !text.contains(['@', ' ']) && text.contains(['.', ':']) => {
                let reason = format!("write http://{text}, or https://{text} if the connection is encrypted");
                Err(ConfigError::BaseUrl { reason })
            }
            _ => Err(ConfigError::BaseUrl { reason: FORM.to_owned() }),
        }
    }

    fn unix(path: &str) -> Result<Self, ConfigError> {
        if path.is_empty() || !cfg!(unix) {
            return Err(ConfigError::BaseUrl { reason: "name a Unix socket that this system can have".to_owned() });
        }
        let url = Url::parse("http://localhost").map_err(|error| ConfigError::BaseUrl { reason: error.to_string() })?;
        Ok(Self { url, socket: Some(path.into()) })
    }

    pub(crate) fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    pub(crate) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether nobody on the network can read what is sent: it is encrypted, or does not leave this machine.
    pub(crate) fn is_private(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        let loopback = address.map_or(host == "localhost", |address| address.to_canonical().is_loopback());
        self.socket.is_some() || self.is_https() || loopback
    }

    /// The URL of a call, behind the path of the base URL.
    pub(crate) fn url_of(&self, call: &Call) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}{}", self.url.path().trim_end_matches('/'), call.path));
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        url
    }
}

/// The URL without the path of the API, which many copy along with it. Calls append that path themselves.
fn without_api_path(mut url: Url) -> Url {
    if let Some(path) = url.path().trim_end_matches('/').strip_suffix(API_PATH) {
        let path = path.to_owned();
        url.set_path(&path);
    }
    url
}

/// Whether the token is sent with a request for this path. Discovery needs none.
pub(crate) fn needs_token(path: &str) -> bool {
    !matches!(path, paths::HEALTH | paths::OPENAPI)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_encrypted_and_local_addresses_are_private() {
        let cases = [
            ("https://queue.example", true),
            ("unix:/run/q.sock", true),
            ("http://127.0.0.1:8000", true),
            ("http://127.1", true),
            ("http://[::1]:8000", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://localhost:1/", true),
            ("http://LOCALHOST", true),
            ("http://localhost.example", false),
            ("http://127.0.0.1.example", false),
            ("http://192.168.0.1", false),
            ("http://[fe80::1]", false),
            ("http://0.0.0.0", false),
        ];
        for (text, private) in cases {
            assert_eq!(ServerAddress::parse(text).unwrap().is_private(), private, "{text}");
        }
    }

    #[test]
    fn addresses_that_cannot_be_used_are_refused() {
        for text in [
            "",
            "8000",
            ":8000",
            "queue.example",
            "queue.example:80",
            "0.0.0.0:80",
            "u:p@127.0.0.1",
            "ftp://x",
            "http://",
            "http://u:p@x",
            "http://x/?a=b",
            "http://x/#a",
            "unix:",
        ] {
            assert!(ServerAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_of_this_machine_needs_no_scheme() {
        for (text, expected) in [
            ("127.0.0.1:8000", "http://127.0.0.1:8000/"),
            ("localhost:8000", "http://localhost:8000/"),
            ("localhost", "http://localhost/"),
            ("[::1]:8000/prefix", "http://[::1]:8000/prefix"),
        ] {
            assert_eq!(ServerAddress::parse(text).unwrap().url.as_str(), expected, "{text}");
        }
        let refused = ServerAddress::parse("queue.example:8000").unwrap_err().to_string();
        assert!(refused.contains("http://queue.example:8000") && refused.contains("https://"), "{refused}");
    }

    #[test]
    fn the_path_of_the_api_may_be_part_of_the_url() {
        for (text, expected) in [
            ("http://x/api/v2", "http://x/"),
            ("http://x/api/v2/", "http://x/"),
            ("http://x/prefix/api/v2", "http://x/prefix"),
            ("http://x/api/v2/more", "http://x/api/v2/more"),
            ("127.0.0.1:8000/api/v2", "http://127.0.0.1:8000/"),
        ] {
            assert_eq!(ServerAddress::parse(text).unwrap().url.as_str(), expected, "{text}");
        }
    }

    #[test]
    fn paths_follow_the_prefix_and_parameters_are_encoded() {
        let call = Call::read("x", "/api/v2/queues".to_owned()).query(vec![("filter", "a == \"ä&+%\"".to_owned())]);
        let encoded = "/api/v2/queues?filter=a+%3D%3D+%22%C3%A4%26%2B%25%22";
        for base in ["http://x/prefix", "http://x/prefix/"] {
            assert_eq!(ServerAddress::parse(base).unwrap().url_of(&call).as_str(), format!("http://x/prefix{encoded}"));
        }
        assert_eq!(ServerAddress::parse("http://x").unwrap().url_of(&call).as_str(), format!("http://x{encoded}"));
    }
}

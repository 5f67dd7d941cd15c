//! A `postgres://` URL. The driver parses it, except for what libpq does and the driver does not: a parameter replaces
//! the same part of the URL, `sslmode` has all its modes (`tls.rs`), `tcp_user_timeout` is in milliseconds, hosts share the
//! time to connect. Errors name the parameter and what it takes, and nothing that is shown of an address holds a secret.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host as HostName, LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs};

use crate::tls::Encryption;

/// How long connecting may take in all, unless the URL says `connect_timeout`: less than the 5 s that a caller waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The same for a command that runs once and whose user would rather wait than begin again.
const COMMAND_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// A peer that is lost is detected within 30 s + 3 probes of 5 s while nothing is sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// And within 10 s after something was sent.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 5432;

/// Every supported parameter, and what it takes.
const PARAMETERS: &[(&str, &str)] = &[
    ("application_name", "a text"),
    ("channel_binding", "disable, prefer or require"),
    ("connect_timeout", "whole seconds, at least 1"),
    ("dbname", "the name of a database"),
    ("host", "a host name, or the folder of a Unix socket"),
    ("hostaddr", "as many IP addresses as there are hosts"),
    ("keepalives", "0 or 1"),
    ("keepalives_count", "a number"),
    ("keepalives_idle", "whole seconds"),
    ("keepalives_interval", "whole seconds"),
    ("keepalives_retries", "a number"),
    ("load_balance_hosts", "disable or random"),
    ("options", "options of the server such as -c name=value"),
    ("password", "the password"),
    ("port", "one port, or as many as there are hosts"),
    ("sslcert", "a PEM file, together with sslkey"),
    ("sslkey", "a PEM file, together with sslcert"),
    ("sslmode", "disable, prefer, require, verify-ca or verify-full"),
    ("sslnegotiation", "postgres, or direct with sslmode=require or stricter"),
    ("sslrootcert", "a PEM file, or system with sslmode=verify-ca or verify-full"),
    ("target_session_attrs", "any, read-write or primary"),
    ("tcp_user_timeout", "whole milliseconds"),
    ("user", "the name of a role"),
];

/// Why a text is not an address. Says what to write; never repeats the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("the address of the database must begin with postgres:// or postgresql://")]
    Scheme,
    /// A reserved character is not escaped.
    #[error("in a PostgreSQL URL, write @ : / ? # & % inside a user, password or name as %40 %3A %2F %3F %23 %26 %25")]
    Unescaped,
    #[error(
        "the PostgreSQL URL names no host; write postgres://USER@HOST/DATABASE, or ?host=/FOLDER for a Unix socket"
    )]
    NoHost,
    #[error("parameters of a PostgreSQL URL are written ?name=value&name=value")]
    NoValue,
    /// The name is left out where it could be a part of a password.
    #[error("the PostgreSQL URL has an unknown parameter{}", .0.as_ref().map(|name| format!(" {name}")).unwrap_or_default())]
    Unknown(Option<String>),
    /// Name of the parameter and what it takes.
    #[error("in the PostgreSQL URL, {0} must be {1}")]
    Value(&'static str, &'static str),
}

impl AddressError {
    pub(crate) fn value(name: &str) -> Self {
        match PARAMETERS.iter().find(|(known, _)| *known == name) {
            Some((name, expected)) => Self::Value(name, expected),
            None => Self::Unknown(None),
        }
    }
}

/// The address of a database, with everything that is needed to log in.
#[derive(Clone)]
pub struct Address {
    /// Without hosts.
    config: Config,
    hosts: Vec<Host>,
    /// What the URL says.
    connect_timeout: Option<Duration>,
    default_connect_timeout: Duration,
    pub(crate) encryption: Encryption,
}

#[derive(Clone)]
struct Host {
    name: HostName,
    address: Option<IpAddr>,
    port: u16,
}

/// The driver's configuration for one host.
pub(crate) struct HostConfig {
    /// `host:port`, for messages.
    pub(crate) name: String,
    pub(crate) config: Config,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (located, mut given) = split(text)?;
        let encryption = Encryption::take(&mut given)?;
        let hosts = take_hosts(&located, &mut given)?;
        let read = |text: String| seconds(&text).ok_or_else(|| AddressError::value("connect_timeout"));
        let connect_timeout = given.remove("connect_timeout").map(read).transpose()?;
        let config = configure(given)?;
        if config.get_ssl_negotiation() == SslNegotiation::Direct && encryption.ssl_mode() != SslMode::Require {
            return Err(AddressError::value("sslnegotiation"));
        }
        Ok(Self { config, hosts, connect_timeout, default_connect_timeout: CONNECT_TIMEOUT, encryption })
    }

    /// Whether the URL has a password.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Uses a password if the URL has none.
    #[must_use]
    pub fn with_password(mut self, password: Option<String>) -> Self {
        if let Some(password) = password.filter(|_| self.config.get_password().is_none()) {
            self.config.password(password);
        }
        self
    }

    /// For a command that runs once: connecting may take longer than in a server, unless the URL says how long.
    pub(crate) fn for_command(mut self) -> Self {
        self.default_connect_timeout = COMMAND_CONNECT_TIMEOUT;
        self
    }

    /// How long connecting may take in all.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(self.default_connect_timeout)
    }

    /// Whether a connection begins with the TLS handshake.
    pub(crate) fn is_direct(&self) -> bool {
        self.config.get_ssl_negotiation() == SslNegotiation::Direct
    }

    /// The hosts, each `host:port`.
    pub(crate) fn hosts(&self) -> String {
        self.hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",")
    }

    /// Whether hosts are tried in random order.
    pub(crate) fn is_balanced(&self) -> bool {
        self.config.get_load_balance_hosts() == LoadBalanceHosts::Random
    }

    /// The hosts in the order of the URL. Each has an equal share of the time, and each of two IP addresses of a host has
    /// half of that: the driver would spend all of it on the first one that does not answer.
    pub(crate) fn host_configs(&self) -> Vec<HostConfig> {
        let share = self.connect_timeout() / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        self.hosts.iter().map(|host| self.host_config(host, share)).collect()
    }

    fn host_config(&self, host: &Host, share: Duration) -> HostConfig {
        let mut config = self.config.clone();
        config.port(host.port).connect_timeout(share / 2);
        // A Unix socket has no TLS, and libpq ignores sslmode there.
        match &host.name {
            HostName::Tcp(name) => config.host(name).ssl_mode(self.encryption.ssl_mode()),
            HostName::Unix(folder) => config.host_path(folder).ssl_mode(SslMode::Disable),
        };
        if let Some(address) = host.address {
            config.hostaddr(address);
        }
        HostConfig { name: host.to_string(), config }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            HostName::Unix(folder) => write!(f, "{}/.s.PGSQL.{}", folder.display(), self.port),
            HostName::Tcp(name) if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            HostName::Tcp(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// User, hosts and database; no parameters, because any of them may hold a secret.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
        let database = self.config.get_dbname().map(|name| format!("/{name}")).unwrap_or_default();
        write!(f, "postgres://{user}{}{database}", self.hosts())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// What stands before `?`, as the driver parses it, and the parameters with user, password and database among them.
fn split(text: &str) -> Result<(Config, BTreeMap<String, String>), AddressError> {
    let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
    let rest = rest.ok_or(AddressError::Scheme)?;
    // As in libpq, a login ends at the first `@` that no `/` precedes.
    let authority = rest.split('/').next().unwrap_or_default();
    let (login, rest) = rest.split_at(authority.find('@').map_or(0, |at| at + 1));
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A password whose reserved characters are not escaped would be parsed as a host or a database, and then shown.
    if login.contains('?') || location.contains('@') {
        return Err(AddressError::Unescaped);
    }
    let located: Config = format!("postgres://{login}{location}").parse().map_err(wrong_value)?;
    let password = std::str::from_utf8(located.get_password().unwrap_or_default());
    let password = password.map_err(|_| AddressError::Unescaped)?;
    let parts = [("user", located.get_user()), ("password", Some(password)), ("dbname", located.get_dbname())];
    let parts = parts.into_iter().filter_map(|(name, part)| Some((name, part.filter(|part| !part.is_empty())?)));
    let mut given: BTreeMap<_, _> = parts.map(|(name, part)| (name.to_owned(), part.to_owned())).collect();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(AddressError::NoValue)?;
        if !PARAMETERS.iter().any(|(known, _)| *known == name) {
            // After a password it may be a part of it.
            let secret = given.contains_key("password");
            return Err(AddressError::Unknown(Some(name.to_owned()).filter(|_| !secret)));
        }
        let value = percent_decode_str(value).decode_utf8().map_err(|_| AddressError::Unescaped)?;
        given.insert(name.to_owned(), value.into_owned());
    }
    Ok((located, given))
}

fn seconds(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

/// The hosts of the URL, or those of its parameters.
fn take_hosts(located: &Config, given: &mut BTreeMap<String, String>) -> Result<Vec<Host>, AddressError> {
    let named = ["host", "hostaddr", "port"].into_iter().filter_map(|name| given.remove_entry(name));
    let named = parse_parameters(&named.filter(|(_, value)| !value.is_empty()).collect())?;
    let addresses = named.get_hostaddrs();
    let mut names = if named.get_hosts().is_empty() { located.get_hosts() } else { named.get_hosts() }.to_vec();
    let ports = if named.get_ports().is_empty() { located.get_ports() } else { named.get_ports() };
    if names.is_empty() {
        names = addresses.iter().map(|address| HostName::Tcp(address.to_string())).collect();
    }
    if names.is_empty() || names.contains(&HostName::Tcp(String::new())) {
        return Err(AddressError::NoHost);
    }
    if !addresses.is_empty() && addresses.len() != names.len() {
        return Err(AddressError::value("hostaddr"));
    }
    if ports.len() > 1 && ports.len() != names.len() {
        return Err(AddressError::value("port"));
    }
    let host = |(index, name)| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(PORT);
        Host { name, address: addresses.get(index).copied(), port }
    };
    Ok(names.into_iter().enumerate().map(host).collect())
}

/// The driver's configuration, with our defaults.
fn configure(mut given: BTreeMap<String, String>) -> Result<Config, AddressError> {
    let tcp_user_timeout = given.remove("tcp_user_timeout");
    if let Some(count) = given.remove("keepalives_count") {
        given.insert("keepalives_retries".to_owned(), count);
    }
    for (name, default) in [
        ("application_name", "taskqueue".to_owned()),
        ("keepalives_idle", KEEPALIVE_IDLE.as_secs().to_string()),
        ("keepalives_interval", KEEPALIVE_INTERVAL.as_secs().to_string()),
        ("keepalives_retries", KEEPALIVE_RETRIES.to_string()),
        // A server cannot work on a standby, and after a failover the first host may be one.
        ("target_session_attrs", "read-write".to_owned()),
    ] {
        given.entry(name.to_owned()).or_insert(default);
    }
    if given.get("target_session_attrs").is_some_and(|attributes| attributes == "primary") {
        given.insert("target_session_attrs".to_owned(), "read-write".to_owned());
    }
    let mut config = parse_parameters(&given)?;
    if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
        return Err(AddressError::value("target_session_attrs"));
    }
    // In milliseconds, as in libpq; the driver would take it for seconds.
    let millis = tcp_user_timeout.map_or(Ok(TCP_USER_TIMEOUT.as_millis() as u64), |text| text.parse());
    config.tcp_user_timeout(Duration::from_millis(millis.map_err(|_| AddressError::value("tcp_user_timeout"))?));
    Ok(config)
}

fn parse_parameters(given: &BTreeMap<String, String>) -> Result<Config, AddressError> {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('\'', "\\'");
    let pairs: Vec<String> = given.iter().map(|(name, value)| format!("{name}='{}'", escaped(value))).collect();
    pairs.join(" ").parse().map_err(wrong_value)
}

/// The driver names the parameter in its text only: "invalid value for option `port`".
fn wrong_value(error: tokio_postgres::Error) -> AddressError {
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    match PARAMETERS.iter().find(|(name, _)| text.contains(&format!("`{name}`"))) {
        Some((name, expected)) => AddressError::Value(name, expected),
        None => AddressError::Unescaped,
    }
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;

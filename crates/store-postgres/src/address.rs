//! Where the database is: a `postgres://` URL, read as libpq reads it. What is about TLS goes to `tls.rs`, the rest to
//! the driver. Nothing that is shown of an address holds a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, SslNegotiation, TargetSessionAttrs};

use crate::tls::Encryption;

/// How long connecting may take in all, unless the URL says `connect_timeout`: less than the 5 s that a caller waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A peer that vanished without a word is noticed within 30 s + 3 probes of 5 s while nothing is sent.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;
/// And within 10 s when something was sent.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 5432;

/// Every parameter that is understood, and what it takes.
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

/// Why a text is no address. Says what to write, never what stood there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// It has another scheme or none.
    #[error("the address of the database must begin with postgres:// or postgresql://")]
    Scheme,
    /// A reserved character stands where it ends a part of the URL.
    #[error("in a PostgreSQL URL, write @ : / ? # & % inside a user, password or name as %40 %3A %2F %3F %23 %26 %25")]
    Unescaped,
    /// It names no host.
    #[error(
        "the PostgreSQL URL names no host; write postgres://USER@HOST/DATABASE, or ?host=/FOLDER for a Unix socket"
    )]
    NoHost,
    /// A parameter has no value.
    #[error("parameters of a PostgreSQL URL are written ?name=value&name=value")]
    NoValue,
    /// A parameter is not known. Its name is left out where it could be a part of a password.
    #[error("the PostgreSQL URL has an unknown parameter{}", .0.as_ref().map(|name| format!(" {name}")).unwrap_or_default())]
    Unknown(Option<String>),
    /// A parameter has a value that it does not take.
    #[error("in the PostgreSQL URL, {0} must be {1}")]
    Value(&'static str, &'static str),
}

impl AddressError {
    /// This parameter has a wrong value.
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
    /// Everything except where.
    config: Config,
    hosts: Vec<Host>,
    connect_timeout: Duration,
    encryption: Encryption,
}

#[derive(Clone)]
struct Host {
    name: String,
    address: Option<std::net::IpAddr>,
    port: u16,
}

/// One of the hosts of an address, ready to connect to.
pub(crate) struct Place {
    /// `host:port`, for messages.
    pub(crate) name: String,
    /// What the driver takes.
    pub(crate) config: Config,
}

impl Address {
    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let mut given = parameters(text)?;
        let encryption = Encryption::take(&mut given)?;
        let hosts = take_hosts(&mut given)?;
        let connect_timeout = match given.remove("connect_timeout") {
            None => CONNECT_TIMEOUT,
            Some(text) => seconds(&text).ok_or_else(|| AddressError::value("connect_timeout"))?,
        };
        let config = configure(given)?;
        if config.get_ssl_negotiation() == SslNegotiation::Direct && encryption.ssl_mode() != SslMode::Require {
            return Err(AddressError::value("sslnegotiation"));
        }
        Ok(Self { config, hosts, connect_timeout, encryption })
    }

    /// Takes a password where the URL has none. The caller knows where passwords are kept (`PGPASSWORD`).
    #[must_use]
    pub fn with_password(mut self, password: Option<String>) -> Self {
        if let Some(password) = password.filter(|_| self.config.get_password().is_none()) {
            self.config.password(password);
        }
        self
    }

    /// How long connecting may take in all.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// What is asked of TLS.
    pub(crate) fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// Whether the TLS handshake comes first, without asking.
    pub(crate) fn is_direct(&self) -> bool {
        self.config.get_ssl_negotiation() == SslNegotiation::Direct
    }

    /// The hosts, each `host:port`.
    pub(crate) fn hosts(&self) -> String {
        self.hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",")
    }

    /// Whether hosts are to be tried in any order.
    pub(crate) fn is_balanced(&self) -> bool {
        self.config.get_load_balance_hosts() == tokio_postgres::config::LoadBalanceHosts::Random
    }

    /// The hosts in the order of the URL. Each has its share of the time, and each of two IP addresses of a host has
    /// half of that: the driver would spend everything on the first one that does not answer.
    pub(crate) fn places(&self) -> Vec<Place> {
        let share = self.connect_timeout / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        self.hosts.iter().map(|host| self.place(host, share)).collect()
    }

    fn place(&self, host: &Host, share: Duration) -> Place {
        let mut config = self.config.clone();
        config.host(&host.name).port(host.port).connect_timeout(share / 2);
        if let Some(address) = host.address {
            config.hostaddr(address);
        }
        // A Unix socket has no TLS, and libpq ignores sslmode there.
        config.ssl_mode(if host.is_socket() { SslMode::Disable } else { self.encryption.ssl_mode() });
        Place { name: host.to_string(), config }
    }
}

impl Host {
    fn is_socket(&self) -> bool {
        self.name.starts_with('/')
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            folder if self.is_socket() => write!(f, "{folder}/.s.PGSQL.{}", self.port),
            name if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            name => write!(f, "{name}:{}", self.port),
        }
    }
}

/// User, hosts and database; no parameter, because any of them may hold a secret.
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

/// Everything that a URL says, by the names of parameters. What stands after `?` replaces what stood before.
fn parameters(text: &str) -> Result<BTreeMap<String, String>, AddressError> {
    let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
    let (login, rest) = split_login(rest.ok_or(AddressError::Scheme)?);
    let (location, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A password whose reserved characters are not escaped would be taken for a host or a database, and then shown.
    if login.contains('?') || location.contains('@') {
        return Err(AddressError::Unescaped);
    }
    let (hosts, database) = location.split_once('/').unwrap_or((location, ""));
    let (user, password) = login.split_once(':').map_or((login, None), |(user, password)| (user, Some(password)));
    let mut given = BTreeMap::new();
    let parts = [("user", user), ("password", password.unwrap_or_default()), ("dbname", database)];
    for (name, value) in parts.into_iter().filter(|(_, value)| !value.is_empty()) {
        given.insert(name.to_owned(), decoded(value)?);
    }
    if !hosts.is_empty() {
        let (names, ports) = split_ports(hosts)?;
        given.extend([("host".to_owned(), names), ("port".to_owned(), ports)]);
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(AddressError::NoValue)?;
        if !PARAMETERS.iter().any(|(known, _)| *known == name) {
            // Behind a password it may be a part of it.
            let secret = given.contains_key("password");
            return Err(AddressError::Unknown(Some(name.to_owned()).filter(|_| !secret)));
        }
        given.insert(name.to_owned(), decoded(value)?);
    }
    Ok(given)
}

/// As in libpq, a login ends at the first `@` that no `/` precedes.
fn split_login(rest: &str) -> (&str, &str) {
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.find('@') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => ("", rest),
    }
}

/// `a:1,[::1],c` is `a,::1,c` and `1,,`.
fn split_ports(hosts: &str) -> Result<(String, String), AddressError> {
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for host in hosts.split(',') {
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(|| AddressError::value("host"))?,
            None => host.split_at(host.find(':').unwrap_or(host.len())),
        };
        let port = if port.is_empty() { Some("") } else { port.strip_prefix(':') };
        names.push(decoded(name)?);
        ports.push(port.ok_or_else(|| AddressError::value("host"))?);
    }
    Ok((names.join(","), ports.join(",")))
}

fn decoded(text: &str) -> Result<String, AddressError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| AddressError::Unescaped)?;
    Ok(text.into_owned())
}

fn seconds(text: &str) -> Option<Duration> {
    text.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

fn take_hosts(given: &mut BTreeMap<String, String>) -> Result<Vec<Host>, AddressError> {
    let mut list = |name: &str| -> Vec<String> {
        let text = given.remove(name).unwrap_or_default();
        if text.is_empty() { Vec::new() } else { text.split(',').map(str::to_owned).collect() }
    };
    let (mut names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    if names.is_empty() {
        names.clone_from(&addresses);
    }
    if names.is_empty() || names.iter().any(String::is_empty) {
        return Err(AddressError::NoHost);
    }
    if !addresses.is_empty() && addresses.len() != names.len() {
        return Err(AddressError::value("hostaddr"));
    }
    if ports.len() > 1 && ports.len() != names.len() {
        return Err(AddressError::value("port"));
    }
    let host = |(index, name): (usize, String)| {
        let port = ports.get(index).or(ports.first()).filter(|port| !port.is_empty());
        let port = port.map_or(Ok(PORT), |port| port.parse()).map_err(|_| AddressError::value("port"))?;
        let address = addresses.get(index).map(|text| text.parse()).transpose();
        Ok(Host { name, address: address.map_err(|_| AddressError::value("hostaddr"))?, port })
    };
    names.into_iter().enumerate().map(host).collect()
}

/// Lets the driver read what is its own, and fills in what is not said.
fn configure(mut given: BTreeMap<String, String>) -> Result<Config, AddressError> {
    let unacknowledged = given.remove("tcp_user_timeout");
    if let Some(count) = given.remove("keepalives_count") {
        given.insert("keepalives_retries".to_owned(), count);
    }
    for (name, default) in [
        ("application_name", "taskqueue".to_owned()),
        ("keepalives_idle", KEEPALIVE_IDLE.as_secs().to_string()),
        ("keepalives_interval", KEEPALIVE_INTERVAL.as_secs().to_string()),
        ("keepalives_retries", KEEPALIVE_RETRIES.to_string()),
        // A server of ours is of no use on a standby, and after a failover the first host may be one.
        ("target_session_attrs", "read-write".to_owned()),
    ] {
        given.entry(name.to_owned()).or_insert(default);
    }
    if given.get("target_session_attrs").is_some_and(|attributes| attributes == "primary") {
        given.insert("target_session_attrs".to_owned(), "read-write".to_owned());
    }
    let mut config = read_by_driver(&given)?;
    if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
        return Err(AddressError::value("target_session_attrs"));
    }
    // Milliseconds, as in libpq; the driver would take it for seconds.
    let millis = unacknowledged.map_or(Ok(TCP_USER_TIMEOUT.as_millis() as u64), |text| text.parse());
    config.tcp_user_timeout(Duration::from_millis(millis.map_err(|_| AddressError::value("tcp_user_timeout"))?));
    Ok(config)
}

fn read_by_driver(given: &BTreeMap<String, String>) -> Result<Config, AddressError> {
    let mut all = String::new();
    for (name, value) in given {
        let pair = format!("{name}='{}' ", value.replace('\\', "\\\\").replace('\'', "\\'"));
        // One by one first: the driver's error does not say which.
        pair.parse::<Config>().map_err(|_| AddressError::value(name))?;
        all.push_str(&pair);
    }
    all.parse().map_err(|_| AddressError::Unescaped)
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;

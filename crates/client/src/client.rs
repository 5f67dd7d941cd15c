//! The client: one call from its first try to its result, and warnings of older servers. The endpoints are in `endpoints.rs`.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use taskqueue_core::json::Value;
use taskqueue_core::trace::TraceParent;

use crate::call::{Call, Retries, random_u16};
use crate::config::{Config, Transport};
use crate::error::{Answer, ConfigError, Error, ReadResult, Waited};

/// A client of one server. Cloning it is cheap; clones share their connections and warnings.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<ClientShared>,
    /// The trace that its calls belong to.
    trace: Option<TraceParent>,
}

#[derive(Debug)]
struct ClientShared {
    transport: Transport,
    retries: Retries,
    seen: Mutex<SeenVersions>,
}

impl Client {
    /// A client for the server that `config` describes. Nothing is sent yet.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let transport = Transport::new(&config)?;
        let shared = Arc::new(ClientShared { transport, retries: config.retries, seen: Mutex::default() });
        Ok(Self { shared, trace: None })
    }

    /// Returns this client with calls that say that they belong to this trace, or to none. The server logs it.
    #[must_use]
    pub fn traced(&self, trace: Option<TraceParent>) -> Self {
        Self { shared: Arc::clone(&self.shared), trace }
    }

    /// The next warning about a server that is older than this client. There is one for each version; the results of its
    /// answers are valid.
    pub fn take_warning(&self) -> Option<OldServer> {
        self.shared.seen.lock().take_warning()
    }

    /// The version in the latest answer that had one.
    pub fn server_version(&self) -> Option<Version> {
        self.shared.seen.lock().latest
    }

    /// Performs a call of which the answer is 200 with a body that `read` reads.
    pub(crate) async fn ask<T>(&self, call: Call, read: impl Fn(&Value<'_>) -> ReadResult<T>) -> Result<T, Error> {
        self.perform(call, |answer| answer.read(&[200], &read)).await
    }

    /// Performs a call of which the answer is 204.
    pub(crate) async fn tell(&self, call: Call) -> Result<(), Error> {
        self.perform(call, Answer::no_content).await
    }

    /// Performs a call that the server is asked to hold for so long.
    pub(crate) async fn wait<T>(
        &self,
        call: Call,
        wait_seconds: Option<u32>,
        read: impl Fn(&Answer) -> Result<T, Error>,
    ) -> Result<Waited<T>, Error> {
        let call = Call { wait_seconds, ..call };
        self.perform(call, |answer| Ok(Waited { value: read(answer)?, wait_applied: answer.wait_applied })).await
    }

    /// Sends a call, repeats it where that is allowed and may help, and returns what `read` finds in its answer.
    pub(crate) async fn perform<T>(&self, call: Call, read: impl Fn(&Answer) -> Result<T, Error>) -> Result<T, Error> {
        let (mut failed, mut earlier_may_be_done) = (0, false);
        loop {
            let error = match self.send(&call).await.and_then(|answer| read(&answer)) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            failed += 1;
            let again = call.is_repeatable && error.is_temporary();
            let pause = again.then(|| self.shared.retries.pause(failed, error.retry_after(), random_u16())).flatten();
            let Some(pause) = pause else { return Err(call.final_error(error, earlier_may_be_done)) };
            earlier_may_be_done |= error.may_have_been_done();
            tokio::time::sleep(pause).await;
        }
    }

    async fn send(&self, call: &Call) -> Result<Answer, Error> {
        let answer = self.shared.transport.send(call, call.trace.or(self.trace)).await?;
        if let Some(version) = &answer.server_version {
            self.shared.seen.lock().note(version);
        }
        Ok(answer)
    }
}

/// The number of versions that are remembered: bounded, because a server may send a new one with every answer.
const REMEMBERED: usize = 16;

/// The three numbers of a semantic version; pre-release and build are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
}

impl Version {
    /// The version in `text`, such as `1.2.3` or `1.2.3-rc.1+build`.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| {
            let digits = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| digits)
        });
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A warning: the server is older than this client. Its answers are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldServer {
    pub server: Version,
    pub client: Version,
}

impl fmt::Display for OldServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server has version {}, which is older than this client's {}", self.server, self.client)
    }
}

/// The versions of servers that answered, and the warnings that were not taken yet.
#[derive(Debug, Default)]
struct SeenVersions {
    latest: Option<Version>,
    versions: Vec<Version>,
    waiting: Vec<OldServer>,
}

impl SeenVersions {
    /// Notes the version that an answer named.
    fn note(&mut self, text: &str) {
        let (Some(server), Some(client)) = (Version::parse(text), Version::parse(env!("CARGO_PKG_VERSION"))) else {
            return;
        };
        self.latest = Some(server);
        if server < client && self.versions.len() < REMEMBERED && !self.versions.contains(&server) {
            self.versions.push(server);
            self.waiting.push(OldServer { server, client });
        }
    }

    /// The oldest warning that was not taken yet.
    fn take_warning(&mut self) -> Option<OldServer> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_numbers() {
        let version = |text| Version::parse(text).unwrap();
        assert!(version("0.9.10") > version("0.9.9"));
        assert!(version("0.10.0") > version("0.9.99"));
        assert_eq!(version("1.2.3-rc.1+x-y"), version("1.2.3"));
        for text in
            ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.x", "1..3", "1.+2.3", " 1.2.3", "99999999999999999999.0.0"]
        {
            assert_eq!(Version::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn each_older_version_is_warned_of_once_and_only_so_many_are_remembered() {
        let mut seen = SeenVersions::default();
        for text in ["0.0.1", "0.0.1", "999.0.0", "nonsense", env!("CARGO_PKG_VERSION"), "0.0.2"] {
            seen.note(text);
        }
        assert_eq!(seen.latest, Some(Version { major: 0, minor: 0, patch: 2 }));
        assert_eq!(seen.take_warning().unwrap().server, Version { major: 0, minor: 0, patch: 1 });
        assert_eq!(seen.take_warning().unwrap().server, Version { major: 0, minor: 0, patch: 2 });
        assert_eq!(seen.take_warning(), None);
        seen.note("0.0.1");
        assert_eq!(seen.take_warning(), None);
        for patch in 0..1000 {
            seen.note(&format!("0.0.{patch}"));
        }
        assert_eq!(std::iter::from_fn(|| seen.take_warning()).count(), REMEMBERED - 2);
    }
}

//! One keep-alive connection, plain or with TLS: sends a request and reads its answer, straight from its bytes. Nothing is pipelined or
//! retried.

use std::borrow::Cow;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Result;
use crate::request::{self, Operation, TASKS};

/// Enough for every answer but pages; the buffer grows for those.
const BUFFER_BYTES: usize = 4096;

/// Where a server listens, and whom to trust if connections to it are encrypted.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self { address, tls: None }
    }
}

/// Trusts this certificate only.
pub(crate) fn trusting(certificate: &Path) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate)?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) struct Client {
    address: SocketAddr,
    stream: Box<dyn Stream>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Where the body begins, behind the empty line.
    head: usize,
    bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn body(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.body())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(self.body()).unwrap_or_default()
    }

    /// The beginning of the body, for people.
    pub(crate) fn excerpt(&self) -> String {
        self.text().chars().take(300).collect()
    }

    /// Fails unless the status is one of success and no item of a batch was refused.
    pub(crate) fn succeed(self) -> Result<Self> {
        match matches!(self.status, 200..=299) && !self.text().contains(r#""outcome":"refused""#) {
            true => Ok(self),
            false => Err(format!("answered {} {}", self.status, self.excerpt()).into()),
        }
    }

    /// The code in the envelope of an error, or its status.
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().map_or_else(|| self.status.to_string(), str::to_owned)
    }

    /// The number of the task that a claim handed out.
    pub(crate) fn claimed_task(&self) -> Option<u64> {
        first_task(&self.text())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let head = std::str::from_utf8(&self.bytes[..self.head]).ok()?;
        let mut headers = head.lines().filter_map(|line| line.split_once(':'));
        headers.find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value.trim()))
    }
}

/// What stands between the first place of a mark and the next of one of these characters.
pub(crate) fn text_behind<'t>(text: &'t str, mark: &str, ends: &[char]) -> Option<&'t str> {
    text.split_once(mark)?.1.split(ends).next()
}

/// The number of the task whose identifier comes first in a text.
fn first_task(text: &str) -> Option<u64> {
    TASKS.read(text_behind(text, "\"id\":\"t_", &['"'])?)
}

impl Client {
    pub(crate) async fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        let stream = TcpStream::connect(endpoint.address).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &endpoint.tls {
            Some(config) => {
                let name = ServerName::from(endpoint.address.ip());
                Box::new(TlsConnector::from(config.clone()).connect(name, stream).await?)
            }
            None => Box::new(stream),
        };
        Ok(Self { address: endpoint.address, stream })
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.write(request).await?;
        self.answer().await
    }

    /// Sends a request whose answer may take its time.
    pub(crate) async fn write(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    pub(crate) async fn answer(&mut self) -> io::Result<Answer> {
        let mut bytes = Vec::with_capacity(BUFFER_BYTES);
        let head = self.read_past(&mut bytes, 0, b"\r\n\r\n").await?;
        let status = bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| number(rest.get(..3)?, 10));
        let mut answer = Answer { status: status.ok_or_else(malformed)? as u16, head, bytes };
        let length = answer.header("content-length").and_then(|length| length.parse::<usize>().ok());
        match (length, answer.status) {
            (Some(length), _) => self.read_to(&mut answer.bytes, head + length).await?,
            (None, 204 | 304) => {}
            (None, _) if answer.header("transfer-encoding").is_some() => self.read_chunks(&mut answer).await?,
            (None, _) => return Err(malformed()),
        }
        Ok(answer)
    }

    /// Reads chunks and puts them together behind the head.
    async fn read_chunks(&mut self, answer: &mut Answer) -> io::Result<()> {
        let (mut at, mut body) = (answer.head, Vec::new());
        loop {
            let begin = self.read_past(&mut answer.bytes, at, b"\r\n").await?;
            let end = begin + number(&answer.bytes[at..begin - 2], 16).ok_or_else(malformed)?;
            self.read_to(&mut answer.bytes, end + 2).await?;
            body.extend_from_slice(&answer.bytes[begin..end]);
            if begin == end {
                answer.bytes.splice(answer.head.., body);
                return Ok(());
            }
            at = end + 2;
        }
    }

    /// Reads until this mark is there, and returns where what follows it begins.
    async fn read_past(&mut self, bytes: &mut Vec<u8>, from: usize, mark: &[u8]) -> io::Result<usize> {
        loop {
            if let Some(at) = bytes[from..].windows(mark.len()).position(|window| window == mark) {
                return Ok(from + at + mark.len());
            }
            self.read_to(bytes, bytes.len() + 1).await?;
        }
    }

    async fn read_to(&mut self, bytes: &mut Vec<u8>, end: usize) -> io::Result<()> {
        bytes.reserve(end.saturating_sub(bytes.len()));
        while bytes.len() < end {
            if self.stream.read_buf(bytes).await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
            }
        }
        Ok(())
    }

    /// Sends a request that must succeed.
    pub(crate) async fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let answer = self.send(&request::with_body(method, self.address, path, body)).await?;
        answer.succeed().map_err(|error| format!("{method} {path}: {error}").into())
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer> {
        self.call("GET", path, "").await
    }

    /// Sends a request of the load by itself; the number of the task that it is about, or that it hands out, which it must.
    pub(crate) async fn operate(&mut self, operation: Operation, queue: &str, ids: (u64, u64)) -> Result<u64> {
        let done = self.single(operation, &operation.request(self.address, queue, ids), ids).await?;
        Ok(done.first().ok_or_else(|| format!("{operation:?} found nothing"))?.0)
    }

    /// Sends a single request of the load; the task and the run that it is about, or that it hands out. A claim may find nothing.
    pub(crate) async fn single(
        &mut self,
        operation: Operation,
        request: &[u8],
        (task, run): (u64, u64),
    ) -> Result<Vec<(u64, u64)>> {
        let answer = self.send(request).await?;
        match (operation, answer.status) {
            (_, status) if !operation.expects(status) => Err(answer.code().into()),
            // A database that does not answer makes the text of metrics short, and nothing slow.
            (Operation::Page("/metrics"), _) if !answer.text().contains("taskqueue_figures_up 1") => {
                Err("metrics_without_figures".into())
            }
            (Operation::Claim, 204) => Ok(Vec::new()),
            (Operation::Claim, _) => Ok(vec![(answer.claimed_task().ok_or("claim_without_task")?, run)]),
            _ => Ok(vec![(task, run)]),
        }
    }

    /// Sends a batch, and says which tasks and runs are done, or were handed out. Fails with the code of what was refused; claims may find
    /// nothing. `more` is what is added to each creation.
    pub(crate) async fn batch(
        &mut self,
        operation: Operation,
        queue: &str,
        items: &[(u64, u64)],
        more: &dyn Fn(u64) -> String,
    ) -> Result<Vec<(u64, u64)>> {
        let answer = self.send(&operation.batch(self.address, queue, items, more)).await?;
        if answer.status != 200 {
            return Err(answer.code().into());
        }
        let (mut done, mut seen) = (Vec::with_capacity(items.len()), 0);
        // Searching text is several times as fast as comparing every window of bytes, and bodies are long here.
        for (part, (task, run)) in answer.text().split("\"outcome\":\"").skip(1).zip(items) {
            seen += 1;
            match part.split('"').next() {
                Some("created" | "done") => done.push((*task, *run)),
                Some("claimed") => done.push((first_task(part).ok_or("claim_without_task")?, *run)),
                Some("none") => {}
                _ => return Err(text_behind(part, "\"code\":\"", &['"']).unwrap_or(part).into()),
            }
        }
        match seen == items.len() {
            true => Ok(done),
            false => Err("items_missing".into()),
        }
    }
}

fn number(text: &[u8], radix: u32) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed_answer")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::request::RUNS;

    impl Answer {
        pub(crate) fn of(status: u16, headers: &str, body: &str) -> Self {
            let head = format!("HTTP/1.1 {status} x\r\n{headers}\r\n\r\n");
            Self { status, head: head.len(), bytes: (head + body).into_bytes() }
        }
    }

    /// Returns what a client makes of these bytes, which come one by one.
    async fn answered(bytes: &[u8]) -> io::Result<(u16, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = Client::connect(&listener.local_addr().unwrap().into()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.set_nodelay(true).unwrap();
        let write = async {
            for byte in bytes.chunks(1) {
                server.write_all(byte).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(server);
        };
        let (answer, ()) = tokio::join!(client.answer(), write);
        answer.map(|answer| (answer.status, answer.text().into_owned()))
    }

    #[tokio::test]
    async fn answers_are_read_with_a_length_in_chunks_and_without_a_body() {
        for (text, status, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"count\":1}", 200, "{\"count\":1}"),
            ("HTTP/1.1 204 No Content\r\nx:\r\n\r\n", 204, ""),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nA\r\n, everyone\r\n0\r\n\r\n",
                200,
                "hello, everyone",
            ),
        ] {
            assert_eq!(answered(text.as_bytes()).await.unwrap(), (status, body.to_owned()), "{text}");
        }
        for text in
            ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", "\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP"]
        {
            assert!(answered(text.as_bytes()).await.is_err(), "{text}");
        }
    }

    #[test]
    fn what_bodies_say_is_found() {
        let body =
            format!(r#"{{"task":{{"id":"{}","queue":"q"}},"run_id":"{}","count":1234}}"#, TASKS.id(42), RUNS.id(1));
        let claimed = Answer::of(200, "Retry-After: 1", &body);
        assert_eq!((claimed.claimed_task(), &claimed.json()["count"]), (Some(42), &1234.into()));
        assert_eq!((claimed.header("retry-after"), claimed.header("retry")), (Some("1"), None));
        assert!(claimed.succeed().is_ok());
        let refused = Answer::of(409, "", r#"{"error":{"code":"stale_run","message":"m"}}"#);
        assert_eq!((refused.code().as_str(), refused.claimed_task()), ("stale_run", None));
        assert!(refused.succeed().is_err());
        assert!(Answer::of(200, "", r#"{"items":[{"outcome":"refused"}]}"#).succeed().is_err());
        assert_eq!(Answer::of(502, "", "").code(), "502");
    }
}

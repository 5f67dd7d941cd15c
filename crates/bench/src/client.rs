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
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::failure::{Failure, Result};
use crate::numbered_ids::{self, CHARACTERS};
use crate::request::{self, Batch, Operation, Requests};

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
    let failed = |error: &dyn std::fmt::Display| Failure::new(format!("{}: {error}", certificate.display()));
    let mut roots = RootCertStore::empty();
    let certificate_read = CertificateDer::from_pem_file(certificate).map_err(|error| failed(&error))?;
    roots.add(certificate_read).map_err(|error| failed(&error))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| failed(&error))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

pub(crate) struct Client {
    address: SocketAddr,
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

/// An answer, still in the buffer of its connection.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// The head, with its empty line.
    pub(crate) head: &'a [u8],
    pub(crate) body: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(crate) fn text(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.body)
    }

    /// Fails unless the status is one of success and no item of a batch was refused.
    pub(crate) fn succeed(self) -> Result<Self> {
        let text = std::str::from_utf8(self.body).unwrap_or_default();
        if matches!(self.status, 200..=299) && !text.contains(r#""outcome":"refused""#) {
            return Ok(self);
        }
        Err(Failure::new(format!("answered {} {}", self.status, text.chars().take(300).collect::<String>())))
    }

    /// The code in the envelope of an error, or its status.
    pub(crate) fn code(&self) -> Cow<'a, str> {
        string_behind(self.body, b"\"code\":\"").map_or_else(|| self.status.to_string().into(), Cow::Borrowed)
    }

    /// The number of the task that a claim handed out.
    pub(crate) fn claimed_task(&self) -> Option<u64> {
        claimed_task(self.body)
    }

    /// The number behind a member of the body.
    pub(crate) fn number(&self, member: &str) -> Option<u64> {
        let text = std::str::from_utf8(self.body).ok()?;
        let rest = &text[text.find(&format!("\"{member}\":"))? + member.len() + 3..];
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// The value of a header; its name is given in small letters, with its colon.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        header(self.head, name.as_bytes())
    }
}

fn claimed_task(body: &[u8]) -> Option<u64> {
    let at = find(body, b"\"id\":\"t_")? + 8;
    numbered_ids::read_task(body.get(at..at + CHARACTERS)?)
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
        Ok(Self { address: endpoint.address, stream, buffer: vec![0; BUFFER_BYTES] })
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<Answer<'_>> {
        self.write(request).await?;
        self.answer().await
    }

    /// Sends a request whose answer may take its time.
    pub(crate) async fn write(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await
    }

    pub(crate) async fn answer(&mut self) -> io::Result<Answer<'_>> {
        let mut filled = 0;
        let head = loop {
            self.read(&mut filled).await?;
            if let Some(end) = find(&self.buffer[..filled], b"\r\n\r\n") {
                break end + 4;
            }
        };
        let status = self.buffer.get(9..12).filter(|_| self.buffer.starts_with(b"HTTP/1.1 ")).and_then(digits);
        let status = status.ok_or_else(malformed)? as u16;
        let end = match header(&self.buffer[..head], b"content-length:").and_then(digits) {
            Some(length) => head + length,
            None if status == 204 || status == 304 => head,
            None if header(&self.buffer[..head], b"transfer-encoding:").is_some() => {
                filled = self.read_chunks(head, filled).await?;
                filled
            }
            None => return Err(malformed()),
        };
        while filled < end {
            self.read(&mut filled).await?;
        }
        let (head, body) = self.buffer[..end].split_at(head);
        Ok(Answer { status, head, body })
    }

    /// Reads chunks and moves them together behind the head; where they end.
    async fn read_chunks(&mut self, mut end: usize, mut filled: usize) -> io::Result<usize> {
        let mut at = end;
        loop {
            let line = loop {
                match find(&self.buffer[at..filled], b"\r\n") {
                    Some(line) => break at + line,
                    None => self.read(&mut filled).await?,
                }
            };
            let length = std::str::from_utf8(&self.buffer[at..line]).ok();
            let length = length.and_then(|text| usize::from_str_radix(text, 16).ok()).ok_or_else(malformed)?;
            while filled < line + length + 4 {
                self.read(&mut filled).await?;
            }
            self.buffer.copy_within(line + 2..line + 2 + length, end);
            (at, end) = (line + length + 4, end + length);
            if length == 0 {
                return Ok(end);
            }
        }
    }

    async fn read(&mut self, filled: &mut usize) -> io::Result<()> {
        if *filled == self.buffer.len() {
            self.buffer.resize(2 * *filled, 0);
        }
        match self.stream.read(&mut self.buffer[*filled..]).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            count => {
                *filled += count;
                Ok(())
            }
        }
    }

    /// Sends a request that must succeed.
    pub(crate) async fn call(&mut self, method: &str, path: &str, body: &str) -> Result<Answer<'_>> {
        let request = request::with_body(method, self.address, path, body);
        self.send(&request).await?.succeed().map_err(|failure| failure.of(&format!("{method} {path}")))
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer<'_>> {
        self.call("GET", path, "").await
    }

    /// Sends one of the rendered requests, which must succeed.
    pub(crate) async fn operate(
        &mut self,
        requests: &mut Requests,
        operation: Operation,
        (task, run): (u64, u64),
    ) -> Result<Answer<'_>> {
        let answer = self.send(requests.fill(operation, task, run)).await?;
        match operation.expects(answer.status) {
            true => Ok(answer),
            false => Err(Failure::new(format!("{operation:?} was answered {} {}", answer.status, answer.code()))),
        }
    }

    /// Sends a batch, and says which tasks and runs are done, or were handed out, and how long the answer is. Fails with the code of
    /// what was refused; claims may find nothing.
    pub(crate) async fn batch(
        &mut self,
        batch: Batch<'_>,
        queue: &str,
        items: &[(u64, u64)],
    ) -> Result<(Vec<(u64, u64)>, usize)> {
        let request = batch.request(self.address, queue, items);
        let answer = self.send(&request).await?;
        if answer.status != 200 {
            return Err(Failure::new(answer.code().into_owned()));
        }
        let (mut done, mut seen) = (Vec::with_capacity(items.len()), 0);
        // Searching text is several times as fast as comparing every window of bytes, and bodies are long here.
        for (part, (task, run)) in answer.text().split("\"outcome\":\"").skip(1).zip(items) {
            seen += 1;
            match part.split('"').next() {
                Some("created" | "done") => done.push((*task, *run)),
                Some("claimed") => {
                    let task = claimed_task(part.as_bytes());
                    done.push((task.ok_or_else(|| Failure::new("claim_without_task".to_owned()))?, *run));
                }
                Some("none") => {}
                _ => {
                    return Err(Failure::new(
                        string_behind(part.as_bytes(), b"\"code\":\"").unwrap_or(part).to_owned(),
                    ));
                }
            }
        }
        match seen == items.len() {
            true => Ok((done, answer.body.len())),
            false => Err(Failure::new("items_missing".to_owned())),
        }
    }
}

fn header<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)))?;
    Some(line[name.len()..].trim_ascii())
}

fn string_behind<'a>(body: &'a [u8], mark: &[u8]) -> Option<&'a str> {
    let rest = &body[find(body, mark)? + mark.len()..];
    std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == b'"')?]).ok()
}

fn digits(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed_answer")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::numbered_ids::{run_id, task_id};

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
            format!(r#"{{"task":{{"id":"{}","queue":"q"}},"run_id":"{}","count":1234}}"#, task_id(42), run_id(1));
        let answer = |status, body: &'static [u8]| Answer {
            status,
            head: b"HTTP/1.1 204 No Content\r\nRetry-After: 1\r\n\r\n",
            body,
        };
        let claimed = answer(200, body.leak().as_bytes());
        assert_eq!((claimed.claimed_task(), claimed.number("count")), (Some(42), Some(1234)));
        assert_eq!(claimed.header("retry-after:"), Some(&b"1"[..]));
        assert!(claimed.succeed().is_ok());
        let refused = answer(409, br#"{"error":{"code":"stale_run","message":"m"}}"#);
        assert_eq!((refused.code().as_ref(), refused.claimed_task()), ("stale_run", None));
        assert!(refused.succeed().is_err());
        assert!(answer(200, br#"{"items":[{"outcome":"refused"}]}"#).succeed().is_err());
        assert_eq!(answer(502, b"").code(), "502");
    }
}

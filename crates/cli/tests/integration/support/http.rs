//! A blocking HTTP/1.1 client over plain sockets. It sends exactly what a test says, also what no HTTP library would send,
//! and gives up after 30 seconds so that a hang is a failure.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustls::SupportedProtocolVersion;
use serde_json::Value;

use super::tls::encrypted;

/// How long a read or write may take (L3 of docs/reference/invariants.md §4).
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a request may carry as its body: nothing, a JSON value, or any text or bytes sent as they are.
pub(crate) trait IntoBody {
    fn into_body(self) -> Vec<u8>;
}

impl IntoBody for () {
    fn into_body(self) -> Vec<u8> {
        Vec::new()
    }
}

impl IntoBody for Value {
    fn into_body(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl IntoBody for &Value {
    fn into_body(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl IntoBody for &str {
    fn into_body(self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl IntoBody for String {
    fn into_body(self) -> Vec<u8> {
        self.into_bytes()
    }
}

impl IntoBody for Vec<u8> {
    fn into_body(self) -> Vec<u8> {
        self
    }
}

/// One request, byte by byte as it will be sent.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunked: bool,
}

impl Request {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        let headers = vec![("Host".into(), "localhost".into())];
        Self { method: method.into(), target: target.into(), headers, body: Vec::new(), chunked: false }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds the body without a content type.
    pub(crate) fn body(mut self, body: impl IntoBody) -> Self {
        self.body = body.into_body();
        self
    }

    /// Adds the body; one that is not empty is announced as JSON.
    pub(crate) fn json(self, body: impl IntoBody) -> Self {
        let request = self.body(body);
        if request.body.is_empty() { request } else { request.header("Content-Type", "application/json") }
    }

    /// Sends the body in chunks instead of announcing its length.
    pub(crate) fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    pub(crate) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name))
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        if self.chunked {
            head.push_str("Transfer-Encoding: chunked\r\n\r\n");
            return [head.into_bytes(), chunks(&self.body), b"0\r\n\r\n".to_vec()].concat();
        }
        let bodyless = matches!(self.method.as_str(), "GET" | "HEAD" | "DELETE") && self.body.is_empty();
        if !bodyless && !self.has_header("Content-Length") {
            write!(head, "Content-Length: {}\r\n", self.body.len()).unwrap();
        }
        head.push_str("\r\n");
        [head.as_bytes(), &self.body].concat()
    }

    /// What a failure message shows of this request.
    fn summary(&self) -> String {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(300).collect();
        let target: String = self.target.chars().take(300).collect();
        format!("{} {target} {body}", self.method)
    }
}

/// `body` in chunks of at most 64 KiB, without the final empty one.
pub(crate) fn chunks(body: &[u8]) -> Vec<u8> {
    let chunk = |part: &[u8]| [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
    body.chunks(65536).flat_map(chunk).collect()
}

/// Reads a message as a server or a proxy does: a head, and a body of the length that it names.
pub(crate) fn read_message(stream: &TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut reader) = (String::new(), BufReader::new(stream));
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length =
        head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some([head.into_bytes(), body].concat())
}

/// One complete answer.
#[derive(Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The request that it answers, for failure messages.
    pub(crate) request: String,
}

impl Response {
    /// The value of a header that must not be repeated.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} occurs twice in {self:?}");
        value
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("the body is UTF-8")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// `error.code` of the envelope.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_else(|| panic!("no error code in {self:?}")).to_owned()
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(600).collect();
        write!(f, "answer to {}\n  {} {:?}\n  {body}", self.request, self.status, self.headers)
    }
}

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

fn tcp_stream(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// A connection that can be used for many requests, one after the other.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

impl Connection {
    pub(crate) fn tcp(address: &str) -> io::Result<Self> {
        Ok(Self { stream: BufReader::new(Box::new(tcp_stream(address)?)) })
    }

    /// A connection with TLS of this version.
    pub(crate) fn tls(address: &str, version: &'static SupportedProtocolVersion) -> io::Result<Self> {
        Ok(Self { stream: BufReader::new(Box::new(encrypted(tcp_stream(address)?, version)?)) })
    }

    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(Box::new(stream)) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// Sends the request and reads its answer. A server may answer before it has read the whole body and close the
    /// connection; then the answer counts, not the failed write.
    pub(crate) fn exchange(&mut self, request: &Request) -> io::Result<Response> {
        let sent = self.write(&request.to_bytes());
        match self.read_response(request.method != "HEAD") {
            Ok(response) => Ok(Response { request: request.summary(), ..response }),
            Err(error) => Err(sent.err().unwrap_or(error)),
        }
    }

    /// Reads one answer, skipping interim ones such as `100 Continue`.
    pub(crate) fn read_response(&mut self, may_have_body: bool) -> io::Result<Response> {
        let (status, headers) = loop {
            let (status, headers) = self.read_head()?;
            if status >= 200 {
                break (status, headers);
            }
        };
        let mut response = Response { status, headers, body: Vec::new(), request: String::new() };
        if may_have_body && status != 204 && status != 304 {
            response.body = self.read_body(&response)?;
        }
        Ok(response)
    }

    /// Reads a status line and the header fields behind it.
    pub(crate) fn read_head(&mut self) -> io::Result<(u16, Vec<(String, String)>)> {
        let line = self.read_line()?;
        let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not a status line: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.read_line()?;
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
                None if line.is_empty() => return Ok((status, headers)),
                None => return Err(io::Error::other(format!("not a header: {line:?}"))),
            }
        }
    }

    fn read_body(&mut self, response: &Response) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if response.header("Transfer-Encoding") == Some("chunked") {
            loop {
                let size = usize::from_str_radix(self.read_line()?.trim(), 16).map_err(io::Error::other)?;
                body.append(&mut self.read_exactly(size)?);
                self.read_line()?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        match response.header("Content-Length") {
            Some(length) => self.read_exactly(length.parse().map_err(io::Error::other)?),
            None => self.stream.read_to_end(&mut body).map(|_| body),
        }
    }

    fn read_exactly(&mut self, size: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        self.stream.read_exact(&mut bytes).map(|()| bytes)
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }
}

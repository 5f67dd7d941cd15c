//! The service that hyper calls: it tracks when a request begins and when its response ends, and calls the handler. A request that waits is
//! taken out of hyper, and its response is written to the socket without hyper. While it waits, its connection needs no buffers, and a
//! disconnect of the client is noticed, which hyper would not do. The client has as much time to take the response as for any other.

use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::response::Parts;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use bytes::Buf;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use hyper::service::Service;
use parking_lot::Mutex;
use taskqueue_api::headers::PREFER;
use taskqueue_api::{bulk_action, paths};
use taskqueue_core::BulkAction;
use tokio::io::AsyncWriteExt;
use tokio::select;
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::activity::{BodyState, RequestNumber, SharedActivity, TimerAction};
use super::handler::{Disconnect, Handler, Orders, StopSignal};
use super::io::ConnectionIo;
use crate::config::Timeouts;
use crate::idle_connections::IdleEntry;

pub(super) struct TrackedService<H> {
    pub(super) handler: H,
    pub(super) activity: SharedActivity,
    pub(super) idle_entry: Arc<IdleEntry>,
    /// For a request that may begin to wait.
    pub(super) waiting_slot: WaitingSlot,
}

impl<H: Handler> Service<Request<Incoming>> for TrackedService<H> {
    type Response = Response<TrackedResponseBody>;
    type Error = Infallible;
    // On the heap: hyper gives the socket back only from a connection that may be moved while a request is under way.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if !self.idle_entry.set_busy() {
            return Box::pin(pending());
        }
        let number = {
            let mut activity = self.activity.lock();
            if ends_with_its_client(&request) {
                activity.begin_client_check(request.version(), Instant::now());
            }
            activity.begin_request()
        };
        let request = request.map(|incoming| track_request(incoming, &self.activity, number));
        let (handler, activity) = (self.handler.clone(), self.activity.clone());
        let track = move |response: Response<Body>| {
            activity.lock().client_check = None;
            response.map(|body| TrackedResponseBody { body, activity })
        };
        // Only a request with a preference can begin to wait; the others need no slot.
        if request.headers().contains_key(PREFER) {
            let slot = self.waiting_slot.clone();
            slot.put(handler, request);
            return Box::pin(async move { Ok(track(poll_fn(|context| slot.poll(context)).await)) });
        }
        Box::pin(async move { Ok(track(handler.handle(request).await)) })
    }
}

/// Returns whether a request is given up when its client has disconnected: a read, and a bulk action, which stops between two portions.
fn ends_with_its_client<B>(request: &Request<B>) -> bool {
    match *request.method() {
        Method::GET | Method::HEAD => true,
        // Most requests are told by this word alone.
        Method::POST if request.uri().path().rsplit('/').nth(1) == Some("bulk") => {
            let template = paths::template_of(request.uri().path());
            BulkAction::ALL.into_iter().any(|action| template == Some(bulk_action::path(action)))
        }
        _ => false,
    }
}

/// A request body that reports its progress. Hyper reads a body only while a handler polls it, and the response may be sent long before
/// that: until hyper has consumed the body, the next bytes are not a request.
struct TrackedRequestBody {
    /// `None` only while it is dropped.
    incoming: Option<Incoming>,
    activity: SharedActivity,
    request: RequestNumber,
}

/// Makes the body of a request report its progress to `activity`.
fn track_request(incoming: Incoming, activity: &SharedActivity, request: RequestNumber) -> Body {
    if incoming.is_end_stream() {
        return Body::new(incoming);
    }
    activity.lock().request_body.set(BodyState::Open, request);
    Body::new(TrackedRequestBody { incoming: Some(incoming), activity: activity.clone(), request })
}

impl hyper::body::Body for TrackedRequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *incoming).poll_frame(cx);
        // Hyper has consumed the body when it hands over the last frame.
        if matches!(polled, Poll::Ready(None)) || incoming.is_end_stream() {
            self.activity.lock().request_body.set(BodyState::Consumed, self.request);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

impl Drop for TrackedRequestBody {
    fn drop(&mut self) {
        // In this order: once the activity says that the body was dropped, hyper must know it too.
        drop(self.incoming.take());
        self.activity.lock().request_body.abandon(self.request);
    }
}

/// A response body whose end is tracked: hyper drops it when it has taken its last byte.
pub(super) struct TrackedResponseBody {
    body: Body,
    activity: SharedActivity,
}

impl Drop for TrackedResponseBody {
    fn drop(&mut self) {
        self.activity.lock().end_response();
    }
}

impl hyper::body::Body for TrackedResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How much a client may send behind a waiting request: several requests of a worker. With 10,000 waiting requests, the
/// most there may be, this is 40 MiB.
const PIPELINED_BYTES: usize = 4096;

type ResponseFuture = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// A request that may begin to wait.
pub(super) struct WaitingRequest {
    response: ResponseFuture,
    disconnect: Disconnect,
    pub(super) format: ResponseFormat,
}

/// Where hyper's service puts such a request, so that the connection can take it away from hyper. Both run in one task.
#[derive(Clone, Default)]
pub(super) struct WaitingSlot(Arc<Mutex<Option<WaitingRequest>>>);

impl WaitingSlot {
    pub(super) fn put<H: Handler>(&self, handler: H, mut request: Request<Body>) {
        let disconnect = Disconnect::default();
        let format = ResponseFormat::new(&request);
        request.extensions_mut().insert(disconnect.clone());
        let response = Box::pin(async move { handler.handle(request).await });
        *self.0.lock() = Some(WaitingRequest { response, disconnect, format });
    }

    /// Polls the handler of the request. Pending for ever once the request was taken.
    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<Response<Body>> {
        let mut slot = self.0.lock();
        let Some(request) = slot.as_mut() else { return Poll::Pending };
        let polled = request.response.as_mut().poll(context);
        if polled.is_ready() {
            *slot = None;
        }
        polled
    }

    /// Returns whether the request waits for something that may take long.
    pub(super) fn is_waiting(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|request| request.disconnect.waits_since().is_some())
    }

    pub(super) fn take(&self) -> Option<WaitingRequest> {
        self.0.lock().take()
    }
}

/// Waits for the response; with it come the bytes that the client has sent behind the request. Nothing when the server
/// stops at once.
///
/// Bytes that arrive meanwhile are read, because the end of the stream comes behind them. A client that sends more than
/// [`PIPELINED_BYTES`] gets its response now: its disconnect would stay hidden behind unread bytes.
pub(super) async fn wait_for_response(
    request: WaitingRequest,
    io: &mut ConnectionIo,
    stop: &mut Orders,
) -> Option<(Response<Body>, Bytes)> {
    let WaitingRequest { mut response, disconnect, .. } = request;
    let mut pipelined = Vec::from(io.take_unread());
    let response = {
        let response = poll_fn(|context| response.as_mut().poll(context));
        let watch_client = async {
            while pipelined.len() < PIPELINED_BYTES {
                match io.stream.next_bytes().await {
                    Ok(bytes) if !bytes.is_empty() => pipelined.extend_from_slice(&bytes),
                    _ => break,
                }
            }
            disconnect.report();
            pending::<()>().await;
        };
        select! {
            // A disconnect is noticed before the handler goes on and claims a task for the client.
            biased;
            () = watch_client => None,
            response = response => Some(response),
            _ = stop.wait_for(|stop| *stop == StopSignal::Abort) => None,
        }
    };
    response.map(|response| (response, pipelined.into()))
}

/// The reason why requests are no longer read from a connection by hyper.
pub(super) enum ExchangeEnd {
    /// It is idle and needs no buffers.
    Parked,
    /// Its request waits for something that may take long.
    Waiting(WaitingRequest),
    /// Its last response is sent, or the client has closed it.
    Finished,
    /// Close it at once: it was too slow, its client disconnected during a read, or the server aborts.
    Abandoned,
}

/// The form of a response as the head of its request asks for it: the version of HTTP, whether the connection stays open, and whether
/// there is a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseFormat {
    version: Version,
    keep_alive: bool,
    /// HEAD: the length of the body is told, and the body is left out.
    is_head: bool,
}

impl ResponseFormat {
    pub(super) fn new<B>(request: &Request<B>) -> Self {
        let (version, headers) = (request.version(), request.headers());
        let has_option = |name: &str| has_connection_option(headers, name);
        // Where both a length and an encoding were sent, hyper believes the encoding, hides the length, and closes: a proxy
        // may have believed the length. Here the length is no longer visible, so an encoding always closes.
        let closes = has_option("close") || headers.contains_key(TRANSFER_ENCODING);
        let keep_alive = !closes && (version != Version::HTTP_10 || has_option("keep-alive"));
        Self { version, keep_alive, is_head: request.method() == Method::HEAD }
    }

    /// Returns the head, with the same fields that hyper would add. The framework has removed the body of an answer to HEAD, and has
    /// left its length in the header.
    fn head(self, parts: &Parts, body_bytes: usize) -> Vec<u8> {
        let status = parts.status;
        let version = if self.version == Version::HTTP_10 { "HTTP/1.0" } else { "HTTP/1.1" };
        let reason = status.canonical_reason().unwrap_or_default();
        let mut head = format!("{version} {} {reason}\r\n", status.as_str()).into_bytes();
        let mut add = |name: &str, value: &[u8]| head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        for (name, value) in parts.headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH) {
            add(name.as_str(), value.as_bytes());
        }
        let told_length = parts.headers.get(CONTENT_LENGTH).filter(|_| self.is_head);
        match told_length {
            _ if status == StatusCode::NO_CONTENT => {}
            Some(length) => add("content-length", length.as_bytes()),
            None => add("content-length", body_bytes.to_string().as_bytes()),
        }
        match (self.version, self.keep_alive) {
            (Version::HTTP_10, true) => add("connection", b"keep-alive"),
            (Version::HTTP_10, false) | (_, true) => {}
            (_, false) => add("connection", b"close"),
        }
        add("date", httpdate::fmt_http_date(std::time::SystemTime::now()).as_bytes());
        head.extend(b"\r\n");
        head
    }
}

fn has_connection_option(headers: &HeaderMap, name: &str) -> bool {
    let values = headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case(name))
}

/// Writes a response. The connection goes on (parked), is to be closed in order (finished), or is lost (abandoned).
pub(super) async fn write_response(
    response: Response<Body>,
    mut format: ResponseFormat,
    io: &mut ConnectionIo,
    timeouts: &Timeouts,
    stop: &mut Orders,
) -> ExchangeEnd {
    let (mut parts, body) = response.into_parts();
    // A handler may close the connection, as it can with hyper.
    format.keep_alive &= !has_connection_option(&parts.headers, "close");
    parts.headers.remove(CONNECTION);
    // The bodies of handlers are complete in memory; this neither waits nor copies.
    let Ok(body) = to_bytes(body, usize::MAX).await else { return ExchangeEnd::Abandoned };
    format.keep_alive &= *stop.borrow() == StopSignal::None;
    let head = format.head(&parts, body.len());
    let body = if format.is_head { Bytes::new() } else { body };
    match send_response(head, body, io, timeouts, stop).await {
        None => ExchangeEnd::Abandoned,
        Some(Ok(())) if format.keep_alive && *stop.borrow() == StopSignal::None => ExchangeEnd::Parked,
        Some(Ok(())) => ExchangeEnd::Finished,
        Some(Err(error)) => {
            debug!(%error, "a connection ended early");
            ExchangeEnd::Finished
        }
    }
}

/// Sends all bytes; `None` when the client is too slow or the server stops at once.
async fn send_response(
    head: Vec<u8>,
    body: Bytes,
    io: &mut ConnectionIo,
    timeouts: &Timeouts,
    stop: &mut Orders,
) -> Option<std::io::Result<()>> {
    let (activity, budgets) = (io.activity.clone(), io.budgets());
    let mut sending = pin!(async {
        let mut bytes = Bytes::from(head).chain(body);
        io.write_all_buf(&mut bytes).await?;
        activity.lock().end_response();
        io.flush().await
    });
    let mut check_at = Instant::now();
    loop {
        select! {
            biased;
            result = sending.as_mut() => return Some(result),
            _ = stop.wait_for(|stop| *stop == StopSignal::Abort) => return None,
            () = sleep_until(check_at) => {}
        }
        match activity.lock().timer_action(Instant::now(), timeouts, budgets.answers.sending_scarcity()) {
            TimerAction::Wait(until) => check_at = until,
            TimerAction::Park => return None,
            TimerAction::Close(slow) => {
                debug!("closed a connection that was too slow {slow}");
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;

    use super::*;
    use crate::listener::Stream;

    #[tokio::test]
    async fn that_a_client_has_gone_is_seen_before_its_request_goes_on() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        drop(client);
        assert_eq!(server.peek(&mut [0]).await.unwrap(), 0);

        let disconnect = Disconnect::default();
        let watched = disconnect.clone();
        let response = Box::pin(async move {
            let disconnected = select! {
                biased;
                () = watched.wait() => true,
                () = std::future::ready(()) => false,
            };
            Response::new(Body::from(disconnected.to_string()))
        });
        let format = ResponseFormat::new(&Request::new(()));
        let request = WaitingRequest { response, disconnect, format };
        let stream = Stream::Tcp(server);
        let (mut io, (_stop, mut stop)) = (ConnectionIo::new(stream, Arc::default()), watch::channel(StopSignal::None));
        let (response, _) = wait_for_response(request, &mut io, &mut stop).await.unwrap();
        assert_eq!(axum::body::to_bytes(response.into_body(), 9).await.unwrap(), "true");
    }

    const OLD: Version = Version::HTTP_10;
    const NEW: Version = Version::HTTP_11;

    #[test]
    fn a_response_ends_the_connection_where_its_request_asked_for_it() {
        type Case<'a> = (Version, &'a [(&'a str, &'a str)], bool);
        let cases: [Case<'_>; 7] = [
            (NEW, &[], true),
            (NEW, &[("connection", "Close")], false),
            (NEW, &[("connection", "x, close")], false),
            (NEW, &[("transfer-encoding", "chunked")], false),
            (OLD, &[], false),
            (OLD, &[("connection", "keep-alive")], true),
            (OLD, &[("connection", "keep-alive, close")], false),
        ];
        for (version, fields, keep_alive) in cases {
            let header = |(name, value): &(&str, &str)| (name.parse().unwrap(), value.parse().unwrap());
            let mut request = Request::new(());
            *request.version_mut() = version;
            *request.headers_mut() = fields.iter().map(header).collect();
            let expected = ResponseFormat { version, keep_alive, is_head: false };
            assert_eq!(ResponseFormat::new(&request), expected, "{fields:?}");
        }
    }

    /// A connection with a request under way, and its client.
    async fn connected() -> (ConnectionIo, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let io = ConnectionIo::new(Stream::Tcp(listener.accept().await.unwrap().0), Arc::default());
        io.activity.lock().begin_request();
        (io, client)
    }

    /// Writes a response of so many bytes to a client.
    async fn write_to_client(body_bytes: usize, signal: StopSignal) -> (ExchangeEnd, ConnectionIo, TcpStream) {
        let (mut io, client) = connected().await;
        let timeouts = Timeouts { read_pace: Duration::from_millis(50), ..Timeouts::default() };
        let response = Response::new(Body::from(vec![b'x'; body_bytes]));
        let format = ResponseFormat { version: NEW, keep_alive: true, is_head: false };
        let (_stop, mut stop) = watch::channel(signal);
        let end = write_response(response, format, &mut io, &timeouts, &mut stop).await;
        (end, io, client)
    }

    #[tokio::test]
    async fn a_connection_goes_on_unless_the_server_stops() {
        for (signal, expected) in [
            (StopSignal::None, "200 OK\r\ncontent-length: 3\r\ndate"),
            (StopSignal::Drain, "200 OK\r\ncontent-length: 3\r\nconnection: close"),
        ] {
            let (end, io, mut client) = write_to_client(3, signal).await;
            assert_eq!(matches!(end, ExchangeEnd::Parked), signal == StopSignal::None);
            assert_eq!(matches!(end, ExchangeEnd::Finished), signal == StopSignal::Drain);
            assert!(!io.activity.lock().has_request());
            drop(io);
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            assert!(text.contains(expected) && text.ends_with("\r\n\r\nxxx"), "{text}");
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_take_the_response_is_abandoned() {
        let (end, io, _client) = write_to_client(64 * 1024 * 1024, StopSignal::None).await;
        assert!(matches!(end, ExchangeEnd::Abandoned) && io.activity.lock().is_send_blocked());
    }

    #[test]
    fn a_head_says_what_hyper_would_say() {
        let cases = [
            (NEW, true, 200, "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 7\r\ndate: "),
            (NEW, false, 200, "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 7\r\nconnection: close\r\ndate: "),
            (NEW, true, 204, "HTTP/1.1 204 No Content\r\nx: y\r\ndate: "),
            (OLD, true, 200, "HTTP/1.0 200 OK\r\nx: y\r\ncontent-length: 7\r\nconnection: keep-alive\r\ndate: "),
            (OLD, false, 200, "HTTP/1.0 200 OK\r\nx: y\r\ncontent-length: 7\r\ndate: "),
        ];
        for (version, keep_alive, status, expected) in cases {
            let response = Response::builder().status(status).header("content-length", "0").header("x", "y");
            let (parts, ()) = response.body(()).unwrap().into_parts();
            let head =
                String::from_utf8(ResponseFormat { version, keep_alive, is_head: false }.head(&parts, 7)).unwrap();
            assert!(head.starts_with(expected), "{head}");
            assert!(head.ends_with(" GMT\r\n\r\n") && head.matches("\r\n\r\n").count() == 1, "{head}");
        }
    }

    #[tokio::test]
    async fn an_answer_to_head_tells_the_length_and_sends_no_body() {
        let request = Request::builder().method("HEAD").body(()).unwrap();
        let format = ResponseFormat::new(&request);
        let told = |length: Option<&str>, body: &'static str| {
            let mut response = Response::new(Body::from(body));
            response.headers_mut().extend(length.map(|length| (CONTENT_LENGTH, length.parse().unwrap())));
            response
        };
        for response in [told(Some("3"), ""), told(None, "xxx")] {
            let (mut io, mut client) = connected().await;
            let (_stop, mut stop) = watch::channel(StopSignal::None);
            let end = write_response(response, format, &mut io, &Timeouts::default(), &mut stop).await;
            assert!(matches!(end, ExchangeEnd::Parked), "the connection goes on");
            drop(io);
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            assert!(text.contains("\r\ncontent-length: 3\r\n") && text.ends_with("\r\n\r\n"), "{text}");
        }
    }
}

//! The accept loop and its connections over real sockets. Timeouts are parameters, so a test waits for what it expects
//! to happen (an answer, a close) and for nothing else; the timeouts as such are in the table in `activity.rs`.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use axum::body::Body;
use axum::http::{Request, Response};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::*;
use crate::error::HOLD_BUSY;
use crate::listener::Listener;
use crate::memory_plan::MemoryPlan;

const HELLO: &[u8] = b"GET /hello HTTP/1.1\r\nhost: x\r\n\r\n";
/// Far beyond what a test should take: whatever has this as its timeout does not happen.
const NEVER: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(50);

const TIMEOUTS: Timeouts = Timeouts {
    handshake: NEVER,
    head: NEVER,
    idle: NEVER,
    write: NEVER,
    read_pace: NEVER,
    park: Duration::from_millis(1),
    linger: Duration::from_secs(2),
    stop: NEVER,
};

impl<F, A> Handler for F
where
    F: Fn(Request<Body>) -> A + Clone + Send + Sync + Unpin + 'static,
    A: Future<Output = Response<Body>> + Send,
{
    fn handle(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send {
        self(request)
    }
}

/// Answers with the path of the request.
async fn echo_path(request: Request<Body>) -> Response<Body> {
    Response::new(Body::from(request.uri().path().to_owned()))
}

struct Server {
    connections: Arc<Connections>,
    accepting: JoinHandle<()>,
    address: String,
}

impl Server {
    async fn start(cap: usize, timeouts: Timeouts, handler: impl Handler) -> Self {
        Self::start_within(Arc::default(), cap, timeouts, handler).await
    }

    async fn start_within(budgets: Arc<Budgets>, cap: usize, timeouts: Timeouts, handler: impl Handler) -> Self {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), false).await.unwrap();
        Self::start_at(listener, budgets, cap, timeouts, handler)
    }

    fn start_at(
        listener: Listener,
        budgets: Arc<Budgets>,
        cap: usize,
        timeouts: Timeouts,
        handler: impl Handler,
    ) -> Self {
        let address = listener.local_address().unwrap().to_string();
        let connections = Arc::new(Connections::new(cap, timeouts, budgets));
        let accepting = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { match connections.accept(|| listener.accept(), listener.tls(), handler).await {} }
        });
        Self { connections, accepting, address }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(&self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Pieces are to arrive as pieces.
        client.set_nodelay(true).unwrap();
        client
    }

    /// Stops like `run` does.
    async fn stop(self) {
        self.accepting.abort();
        drop(self.accepting.await);
        self.connections.drain().await;
    }

    /// Waits until no connection is left.
    async fn all_closed(&self) {
        drop(self.connections.slots.acquire_many(self.connections.cap).await.unwrap());
    }
}

/// Reads one answer with a `content-length`: its status line and its body.
fn read_answer(client: &mut impl Read) -> (String, String) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    client.read_exact(&mut body).unwrap();
    (head.lines().next().unwrap().to_owned(), String::from_utf8(body).unwrap())
}

/// Waits for the end of the connection; whether it came without another byte.
fn is_closed(client: &mut impl Read) -> bool {
    match client.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_answered_in_order_even_when_one_arrives_in_pieces() {
    let server = Server::start(8, TIMEOUTS, echo_path).await;
    let mut client = server.connect();
    for _ in 0..20 {
        client.write_all(b"GET /1 HTTP/1.1\r\nhost: x\r\n\r\nGET /2 HTTP/1.1\r\nhost: x\r\n\r\nGET /3 HT").unwrap();
        assert_eq!(read_answer(&mut client).1, "/1");
        assert_eq!(read_answer(&mut client).1, "/2");
        client.write_all(b"TP/1.1\r\nhost: x\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut client).1, "/3");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_head_is_closed_although_idle_connections_may_stay() {
    let server = Server::start(8, Timeouts { head: SOON, ..TIMEOUTS }, echo_path).await;
    let mut client = server.connect();
    client.write_all(b"GET /hello HT").unwrap();
    assert!(is_closed(&mut client));

    let mut second_head = server.connect();
    second_head.write_all(HELLO).unwrap();
    read_answer(&mut second_head);
    second_head.write_all(b"G").unwrap();
    assert!(is_closed(&mut second_head));
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_and_idle_connections_are_closed_after_the_idle_timeout() {
    let server = Server::start(8, Timeouts { idle: SOON, ..TIMEOUTS }, echo_path).await;
    assert!(is_closed(&mut server.connect()));

    let mut idle = server.connect();
    idle.write_all(HELLO).unwrap();
    read_answer(&mut idle);
    assert!(is_closed(&mut idle));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_take_its_answer_is_cut_off() {
    let large = |_| async { Response::new(Body::from(vec![b'x'; 64 << 20])) };
    for slow in [Timeouts { write: SOON, ..TIMEOUTS }, Timeouts { read_pace: SOON, ..TIMEOUTS }] {
        let server = Server::start(8, slow, large).await;
        let mut client = server.connect();
        client.write_all(HELLO).unwrap();
        server.all_closed().await;
    }
}

/// A budget for answers of so many bytes, and a handler each of whose answers takes all of it.
fn filling(bytes: usize) -> (Arc<Budgets>, impl Handler) {
    let budgets = Arc::new(Budgets::new(&MemoryPlan { answers_bytes: bytes, ..MemoryPlan::within(0) }));
    let of_handler = Arc::clone(&budgets);
    let handler = move |_| {
        let budgets = Arc::clone(&of_handler);
        async move { Response::new(Body::from(budgets.answers.reserve(bytes).await.unwrap().attach_to(vec![b'x'; bytes]))) }
    };
    (budgets, handler)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_taken_holds_its_reservation_until_its_connection_ends() {
    const BYTES: usize = 64 << 20;
    let (budgets, handler) = filling(BYTES);
    let server = Server::start(8, TIMEOUTS, handler).await;
    let mut client = server.connect();
    client.write_all(HELLO).unwrap();
    client.read_exact(&mut vec![0; 1 << 20]).unwrap();
    let early = timeout(SOON, budgets.answers.reserve(1)).await;
    assert!(early.is_err(), "hyper has the body, but the client does not");

    drop(client);
    assert!(budgets.answers.reserve(BYTES).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_gives_way_to_others_when_room_is_scarce() {
    const BYTES: usize = 64 << 20;
    let (budgets, handler) = filling(BYTES);
    // A minute as long as there is room for others; half a second when there is none.
    let server = Server::start_within(budgets, 8, TIMEOUTS, handler).await;
    let mut idle = server.connect();
    idle.write_all(HELLO).unwrap();
    idle.read_exact(&mut [0; 1000]).unwrap();
    let mut reader = server.connect();
    reader.write_all(HELLO).unwrap();
    assert_eq!(read_answer(&mut reader).1.len(), BYTES);
    let rest = std::io::copy(&mut idle, &mut std::io::sink());
    assert!(rest.map_or(true, |rest| rest < BYTES as u64), "a client that did not read has its answer all the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_head_needs_room_and_a_small_one_does_not() {
    let head = |size: usize| format!("GET /hello HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(size));
    let cases = [(0, 5_000, 200), (0, 20_000, 503), (0, 100_000, 503), (1 << 21, 100_000, 200)];
    for (requests_bytes, size, status) in cases {
        let plan = MemoryPlan { requests_bytes, ..MemoryPlan::within(0) };
        let server = Server::start_within(Arc::new(Budgets::new(&plan)), 8, TIMEOUTS, echo_path).await;
        let mut client = server.connect();
        // More than one, because what the first one took must be given back.
        for _ in 0..if status == 200 { 8 } else { 1 } {
            let sent = Instant::now();
            client.write_all(head(size).as_bytes()).unwrap();
            let (line, body) = read_answer(&mut client);
            assert!(line.starts_with(&format!("http/1.1 {status}")), "{size}: {line}");
            assert!(status == 200 || sent.elapsed() >= HOLD_BUSY, "a client that connects again at once is not slowed");
            assert!(status == 200 || body.contains("database_busy"), "{body}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_gets_the_error_envelope() {
    let server = Server::start(8, TIMEOUTS, echo_path).await;
    let huge = format!("GET / HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "a".repeat(200_000));
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(70_000));
    let cases = [
        ("nonsense\r\n\r\n", "http/1.1 400 bad request"),
        ("GET / HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n", "http/1.1 400 bad request"),
        ("GET / HTTP/1.1\r\nbad header: x\r\n\r\n", "http/1.1 400 bad request"),
        (&huge, "http/1.1 431 request header fields too large"),
        (&long, "http/1.1 414 uri too long"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http/1.1 400 bad request"),
        ("PRI * HTTP/2.0\r\n\r\n", "http/1.1 400 bad request"),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0", "http/1.1 400 bad request"),
    ];
    for (request, expected) in cases {
        let mut client = server.connect();
        client.write_all(request.as_bytes()).unwrap();
        let (status, body) = read_answer(&mut client);
        assert_eq!(status, expected);
        assert!(body.starts_with(r#"{"error":{"code":"invalid_request","message":"#), "{body}");
        assert_eq!(body.contains("not HTTP/2"), request.starts_with("PRI"), "{body}");
        assert_eq!(body.contains("not TLS"), request.starts_with('\u{16}'), "{body}");
        assert!(is_closed(&mut client), "{expected}");
    }
    let mut after_an_answer = server.connect();
    after_an_answer.write_all(&[HELLO, b"nonsense\r\n\r\n"].concat()).unwrap();
    assert_eq!(read_answer(&mut after_an_answer).1, "/hello");
    assert_eq!(read_answer(&mut after_an_answer).0, "http/1.1 400 bad request");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_an_unread_body_arrives_although_the_client_is_still_sending() {
    let server = Server::start(8, TIMEOUTS, echo_path).await;
    for _ in 0..10 {
        let mut client = server.connect();
        let size = 8 << 20;
        client.write_all(format!("PUT /big HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n\r\n").as_bytes()).unwrap();
        client.write_all(&vec![b'x'; size]).unwrap();
        assert_eq!(read_answer(&mut client).1, "/big");
    }
}

/// Answers before it reads the body.
async fn answer_first(request: Request<Body>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    crate::extract::discard(request.into_body());
    Response::new(Body::from(path))
}

/// A body that looks like a request, of which a part comes with its head and the rest when the answer is there.
fn send_in_parts(client: &mut TcpStream, with_head: usize) {
    const INSIDE: &[u8] = b"GET /inside HTTP/1.1\r\nhost: x\r\n\r\n";
    let head = format!("PUT /outside HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", INSIDE.len());
    client.write_all(&[head.as_bytes(), &INSIDE[..with_head]].concat()).unwrap();
    assert_eq!(read_answer(client).1, "/outside");
    client.write_all(&INSIDE[with_head..]).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_body_after_the_answer_is_never_taken_for_a_request() {
    for park in [Duration::ZERO, TIMEOUTS.park, NEVER] {
        let server = Server::start(8, Timeouts { park, ..TIMEOUTS }, answer_first).await;
        for with_head in [0, 1, 20, 33] {
            for _ in 0..20 {
                let mut client = server.connect();
                send_in_parts(&mut client, with_head);
                client.write_all(HELLO).unwrap();
                assert_eq!(read_answer(&mut client).1, "/hello", "parked after {park:?}, {with_head} bytes");
            }
        }
    }
}

/// Reads the body before it answers, or afterwards, as the path says.
async fn answer_first_or_last(request: Request<Body>) -> Response<Body> {
    if request.uri().path().starts_with("/last") {
        let (head, body) = request.into_parts();
        axum::body::to_bytes(body, 1 << 20).await.unwrap();
        return answer_first(Request::from_parts(head, Body::empty())).await;
    }
    answer_first(request).await
}

/// Numbers without a pattern, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    /// A request to `path`, in any framing; its body looks like a request.
    fn request(&mut self, path: &str) -> Vec<u8> {
        let inside = "GET /inside HTTP/1.1\r\nhost: x\r\n\r\n".repeat(self.below(3));
        let framed = match self.below(3) {
            0 => "host: x\r\n\r\n".to_owned(),
            1 => format!("host: x\r\ncontent-length: {}\r\n\r\n{inside}", inside.len()),
            _ => {
                let chunk = if inside.is_empty() { inside } else { format!("{:x}\r\n{inside}\r\n", inside.len()) };
                format!("host: x\r\ntransfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n")
            }
        };
        format!("PUT {path} HTTP/1.1\r\n{framed}").into_bytes()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn however_requests_are_cut_into_pieces_each_has_its_own_answer() {
    let mut numbers = Numbers(7);
    for park in [Duration::ZERO, TIMEOUTS.park] {
        let server = Server::start(8, Timeouts { park, ..TIMEOUTS }, answer_first_or_last).await;
        for conversation in 0..150 {
            let paths: Vec<String> =
                (0..6).map(|n| format!("/{}/{conversation}/{n}", ["first", "last"][numbers.below(2)])).collect();
            let mut sender = server.connect();
            let mut receiver = sender.try_clone().unwrap();
            let expected = paths.clone();
            let received =
                std::thread::spawn(move || expected.iter().all(|path| read_answer(&mut receiver).1 == *path));
            for path in &paths {
                let request = numbers.request(path);
                let mut rest = &request[..];
                while !rest.is_empty() {
                    let piece = 1 + numbers.below(rest.len().min(60));
                    sender.write_all(&rest[..piece]).unwrap();
                    rest = &rest[piece..];
                    if numbers.below(4) == 0 {
                        tokio::task::yield_now().await;
                    }
                }
            }
            assert!(received.join().unwrap(), "conversation {conversation}: {paths:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_body_that_was_dropped_is_skipped_or_ends_the_connection() {
    for park in [Duration::ZERO, TIMEOUTS.park, NEVER] {
        let server = Server::start(8, Timeouts { park, ..TIMEOUTS }, echo_path).await;
        for with_head in [0, 1, 20, 33] {
            let mut client = server.connect();
            send_in_parts(&mut client, with_head);
            // A connection that was given up may refuse these bytes.
            drop(client.write_all(HELLO));
            let mut rest = String::new();
            let ended = client.shutdown(std::net::Shutdown::Write).and_then(|()| client.read_to_string(&mut rest));
            assert!(!rest.contains("/inside") && !rest.contains(" 400 "), "{ended:?} {rest:?}");
        }
    }
}

mod crowded;
mod tls;

/// A handler that reports when it is entered and answers with the path when it is notified.
fn entered_and_left() -> (impl Handler, mpsc::UnboundedReceiver<()>, Arc<Notify>) {
    let (entered, entries) = mpsc::unbounded_channel();
    let leave = Arc::new(Notify::new());
    let may_leave = Arc::clone(&leave);
    let handler = move |request: Request<Body>| {
        let (entered, leave) = (entered.clone(), Arc::clone(&may_leave));
        async move {
            entered.send(()).unwrap();
            leave.notified().await;
            echo_path(request).await
        }
    };
    (handler, entries, leave)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_the_request_under_way_and_closes_idle_connections() {
    let (handler, mut entries, leave) = entered_and_left();
    let server = Server::start(8, TIMEOUTS, handler).await;
    let (mut silent, mut idle, mut busy) = (server.connect(), server.connect(), server.connect());
    idle.write_all(HELLO).unwrap();
    entries.recv().await;
    leave.notify_one();
    read_answer(&mut idle);
    busy.write_all(HELLO).unwrap();
    entries.recv().await;

    let address = server.address.clone();
    let stopping = tokio::spawn(server.stop());
    assert!(is_closed(&mut silent));
    assert!(is_closed(&mut idle));
    assert_eq!(TcpStream::connect(address).map_err(|error| error.kind()).err(), Some(ErrorKind::ConnectionRefused));
    leave.notify_one();
    assert_eq!(read_answer(&mut busy).1, "/hello");
    assert!(is_closed(&mut busy));
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_cuts_off_requests_that_do_not_end() {
    let (entered, mut entries) = mpsc::unbounded_channel();
    let handler = move |_| {
        entered.send(()).unwrap();
        std::future::pending()
    };
    let server = Server::start(8, Timeouts { stop: SOON, ..TIMEOUTS }, handler).await;
    let mut client = server.connect();
    client.write_all(HELLO).unwrap();
    entries.recv().await;
    server.stop().await;
    assert!(is_closed(&mut client));
}

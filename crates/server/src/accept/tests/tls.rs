//! Connections with TLS: the handshake and its limit, the cap, what is not TLS, slow clients, the end of a connection.

use std::sync::Mutex;

use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};

use super::*;
use crate::tls::Identity;

/// All certificates of these tests: clients trust them.
static KNOWN: Mutex<Vec<CertificateDer<'static>>> = Mutex::new(Vec::new());

/// A new certificate with its key.
fn identity() -> Identity {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    KNOWN.lock().unwrap().push(certificate.der().clone());
    Identity::from_pem(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
}

/// A socket that keeps a copy of what it reads.
struct Recorded {
    socket: TcpStream,
    read: Arc<Mutex<Vec<u8>>>,
}

impl Read for Recorded {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.socket.read(buffer)?;
        self.read.lock().unwrap().extend(&buffer[..count]);
        Ok(count)
    }
}

impl Write for Recorded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

struct Client {
    stream: StreamOwned<ClientConnection, Recorded>,
    /// Everything that the server has sent, encrypted.
    read: Arc<Mutex<Vec<u8>>>,
}

impl Client {
    fn connect(server: &Server, version: &'static SupportedProtocolVersion, protocols: &[&str]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(KNOWN.lock().unwrap().iter().cloned());
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_protocol_versions(&[version]).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let session = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let read: Arc<Mutex<Vec<u8>>> = Arc::default();
        let socket = Recorded { socket: server.connect(), read: Arc::clone(&read) };
        Self { stream: StreamOwned::new(session, socket), read }
    }

    fn ask(&mut self) -> (String, String) {
        self.stream.write_all(HELLO).unwrap();
        read_answer(&mut self.stream)
    }

    /// Returns whether the connection ended with the server saying so; a bare end could be an attacker's.
    fn is_ended_in_order(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }

    /// How many records of content the server has sent.
    fn content_records(&self) -> usize {
        const CONTENT: u8 = 23;
        let (bytes, mut at, mut count) = (self.read.lock().unwrap(), 0, 0);
        while let Some(head) = bytes.get(at..at + 5) {
            count += usize::from(head[0] == CONTENT);
            at += 5 + usize::from(u16::from_be_bytes([head[3], head[4]]));
        }
        count
    }
}

async fn start(cap: usize, timeouts: Timeouts, handler: impl Handler) -> (Server, Tls) {
    let tls = Tls::new(identity()).unwrap();
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), false).await.unwrap();
    let listener = listener.with_tls(tls.clone()).unwrap();
    assert!(listener.base_url().starts_with("https://127.0.0.1:"));
    (Server::start_at(listener, Arc::default(), cap, timeouts, handler), tls)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_over_both_versions_and_each_small_answer_is_one_record() {
    let (server, _) = start(8, TIMEOUTS, echo_path).await;
    for version in [&TLS12, &TLS13] {
        for protocols in [&[][..], &["http/1.1"], &["h2", "http/1.1"]] {
            let mut client = Client::connect(&server, version, protocols);
            assert_eq!(client.ask(), ("http/1.1 200 ok".into(), "/hello".into()));
            let before = client.content_records();
            for _ in 0..100 {
                assert_eq!(client.ask().1, "/hello");
            }
            assert_eq!(client.content_records() - before, 100, "{version:?}");
        }
    }
    let mut only_http_2 = Client::connect(&server, &TLS13, &["h2"]);
    assert!(only_http_2.stream.write_all(HELLO).and_then(|()| only_http_2.stream.read(&mut [0])).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_answers_and_bodies_arrive_whole() {
    const BYTES: usize = 5_000_000;
    let echo = |request: Request<Body>| async {
        Response::new(Body::from(axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap()))
    };
    let (server, _) = start(8, TIMEOUTS, echo).await;
    let mut client = Client::connect(&server, &TLS13, &[]);
    let head = format!("PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {BYTES}\r\n\r\n");
    client.stream.write_all(head.as_bytes()).unwrap();
    client.stream.write_all(&vec![b'x'; BYTES]).unwrap();
    assert_eq!(read_answer(&mut client.stream).1.len(), BYTES);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_tls_is_told_to_use_https() {
    let (server, _) = start(8, TIMEOUTS, echo_path).await;
    for sent in [HELLO, b"G", b"garbage", b"\x80\x2e\x01", b"\0\0\0\0", &[b'x'; 100_000]] {
        let mut client = server.connect();
        client.write_all(sent).unwrap();
        let (status, body) = read_answer(&mut client);
        assert_eq!(status, "http/1.1 400 bad request");
        assert!(body.starts_with(r#"{"error":{"code":"invalid_request""#) && body.contains("https://"), "{body}");
        assert!(is_closed(&mut client));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_no_handshake_ends_the_connection_and_nothing_else() {
    let (server, _) = start(8, TIMEOUTS, echo_path).await;
    // An empty record, one that is too long, a garbled one, and what a client of TLS 1.1 says first.
    let old: Vec<u8> = [&b"\x16\x03\x01\0\x2d\x01\0\0\x29\x03\x02"[..], &[7; 32], b"\0\0\x02\xc0\x13\x01\0"].concat();
    let broken: [&[u8]; 4] =
        [b"\x16\x03\x01\0\0", b"\x16\x03\x01\xff\xff", b"\x16\x03\x01\0\x04\x01\xff\xff\xff", &old];
    for sent in broken {
        let mut client = server.connect();
        client.write_all(sent).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        drop(client.read_to_end(&mut answer));
        assert!(answer.is_empty() || answer[0] == 0x15, "an alert or nothing: {answer:?}");
        if sent == old {
            const FATAL: u8 = 2;
            assert_eq!(answer[5], FATAL);
        }
    }
    assert_eq!(Client::connect(&server, &TLS12, &[]).ask().1, "/hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_has_a_limit_whether_its_client_is_silent_or_slow() {
    assert_eq!(Timeouts::default().handshake, Duration::from_secs(10));
    let (server, _) = start(8, Timeouts { handshake: SOON, ..TIMEOUTS }, echo_path).await;
    assert!(is_closed(&mut server.connect()));
    let mut slow = server.connect();
    slow.write_all(b"\x16\x03\x01\x02").unwrap();
    assert!(is_closed(&mut slow));
    server.all_closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_handshake_counts_towards_the_cap_and_is_closed_for_a_new_connection() {
    let (server, _) = start(1, TIMEOUTS, echo_path).await;
    let mut slow = server.connect();
    slow.write_all(b"\x16\x03\x01\x02").unwrap();
    while server.connections.open_count() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(Client::connect(&server, &TLS13, &[]).ask().1, "/hello");
    assert!(is_closed(&mut slow));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_take_its_answer_is_cut_off() {
    // One that does not fit into the buffers of the system, and one of which only the last record does not.
    for size in [64 << 20, 3 << 20] {
        let large = move |_| async move { Response::new(Body::from(vec![b'x'; size])) };
        let (server, _) = start(8, Timeouts { read_pace: SOON, ..TIMEOUTS }, large).await;
        let mut client = Client::connect(&server, &TLS13, &[]);
        client.stream.write_all(HELLO).unwrap();
        server.all_closed().await;
    }
}

/// Reports that the future that owns it was dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_whose_client_has_gone_is_dropped_and_one_whose_client_only_stopped_sending_is_answered() {
    let (entered, mut entries) = mpsc::unbounded_channel();
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let leave = Arc::new(Notify::new());
    let may_leave = Arc::clone(&leave);
    let handler = move |request: Request<Body>| {
        let (leave, dropped) = (Arc::clone(&may_leave), Dropped(dropped.clone()));
        entered.send(()).unwrap();
        async move {
            let _dropped = dropped;
            leave.notified().await;
            echo_path(request).await
        }
    };
    let (server, _) = start(8, TIMEOUTS, handler).await;
    let mut gone = Client::connect(&server, &TLS13, &[]);
    gone.stream.write_all(HELLO).unwrap();
    entries.recv().await;
    drop(gone);
    timeout(NEVER, drops.recv()).await.expect("a handler that nobody waits for");

    let mut half_closed = Client::connect(&server, &TLS13, &[]);
    half_closed.stream.write_all(HELLO).unwrap();
    entries.recv().await;
    half_closed.stream.sock.socket.shutdown(std::net::Shutdown::Write).unwrap();
    // The server asks whether the client is still there with an interim response.
    let mut interim = [0; 25];
    half_closed.stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    leave.notify_one();
    let mut rest = String::new();
    drop(half_closed.stream.read_to_string(&mut rest));
    assert!(rest.contains("200 OK") && rest.ends_with("/hello"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_idle_connections_in_order_and_answers_the_request_under_way() {
    let (handler, mut entries, leave) = entered_and_left();
    let (server, _) = start(8, TIMEOUTS, handler).await;
    let mut idle = Client::connect(&server, &TLS13, &[]);
    idle.stream.write_all(HELLO).unwrap();
    entries.recv().await;
    leave.notify_one();
    read_answer(&mut idle.stream);
    let mut unfinished = server.connect();
    unfinished.write_all(b"\x16\x03\x01\x02").unwrap();
    let mut busy = Client::connect(&server, &TLS12, &[]);
    busy.stream.write_all(HELLO).unwrap();
    entries.recv().await;

    let stopping = tokio::spawn(server.stop());
    assert!(idle.is_ended_in_order());
    assert!(is_closed(&mut unfinished));
    leave.notify_one();
    assert_eq!(read_answer(&mut busy.stream).1, "/hello");
    assert!(busy.is_ended_in_order());
    stopping.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_certificate_is_shown_from_the_next_connection_on_and_open_ones_go_on() {
    let (server, tls) = start(8, TIMEOUTS, echo_path).await;
    let mut old = Client::connect(&server, &TLS13, &[]);
    old.ask();
    tls.replace(identity());
    let mut new = Client::connect(&server, &TLS13, &[]);
    new.ask();
    assert_eq!(old.ask().1, "/hello");
    assert_ne!(old.stream.conn.peer_certificates(), new.stream.conn.peer_certificates());
}

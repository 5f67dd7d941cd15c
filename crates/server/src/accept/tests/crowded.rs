//! The accept loop when there are too many connections, and when accepts fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Answers with the path. A request for `/known` is authenticated.
#[derive(Clone, Default)]
struct KnowsSome(Option<Arc<IdleEntry>>);

impl Handler for KnowsSome {
    async fn handle(&self, request: Request<Body>) -> Response<Body> {
        if request.uri().path() == "/known" {
            self.0.as_ref().unwrap().set_authenticated();
        }
        echo_path(request).await
    }

    fn for_client(self, _: ClientAddress, connection: &Arc<IdleEntry>) -> Self {
        Self(Some(Arc::clone(connection)))
    }
}

/// Sends a request for this path and reads the answer.
fn ask(client: &mut TcpStream, path: &str) {
    client.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(read_answer(client).1, path);
}

impl Server {
    /// A connection on which a request for this path was answered.
    fn caller(&self, path: &str) -> TcpStream {
        let mut client = self.connect();
        ask(&mut client, path);
        client
    }

    /// Waits until so many connections are idle.
    async fn idle(&self, count: usize) {
        let idle = async {
            while self.connections.idle.count() != count {
                tokio::task::yield_now().await;
            }
        };
        let found = || self.connections.idle.count();
        timeout(NEVER, idle).await.unwrap_or_else(|_| panic!("{} are idle, not {count}", found()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_connection_that_never_authenticated_is_closed_for_a_new_one_then_the_oldest_idle_one() {
    for park in [Duration::ZERO, TIMEOUTS.park, Duration::from_millis(100)] {
        let server = Server::start(5, Timeouts { park, ..TIMEOUTS }, KnowsSome::default()).await;
        let mut known = server.caller("/known");
        let mut silent = server.connect();
        server.idle(2).await;
        let mut slow_head = server.connect();
        slow_head.write_all(b"GET /hel").unwrap();
        server.idle(3).await;
        let mut unauthenticated = server.caller("/hello");
        server.idle(4).await;
        let mut later = server.caller("/known");
        server.idle(5).await;

        let mut new_connections = Vec::new();
        let cases = [("silent", &mut silent), ("slow head", &mut slow_head), ("unauthenticated", &mut unauthenticated)];
        for (name, oldest) in cases {
            new_connections.push(server.caller("/known"));
            assert!(is_closed(oldest), "{name}, parked after {park:?}");
            server.idle(5).await;
        }
        new_connections.push(server.caller("/known"));
        assert!(is_closed(&mut known));
        ask(&mut later, "/known");
        for new_connection in &mut new_connections {
            ask(new_connection, "/known");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_connection_is_closed_before_the_cap_is_reached() {
    let server = Server::start(3, TIMEOUTS, KnowsSome::default()).await;
    let mut clients = [server.caller("/hello"), server.caller("/hello"), server.caller("/hello")];
    for _ in 0..20 {
        server.idle(3).await;
        clients.iter_mut().for_each(|client| ask(client, "/hello"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_keeps_its_connection_and_new_ones_wait_until_one_is_answered() {
    let (handler, mut entries, leave) = entered_and_left();
    let server = Server::start(2, TIMEOUTS, handler).await;
    let mut busy = [server.connect(), server.connect()];
    for client in &mut busy {
        client.write_all(HELLO).unwrap();
        entries.recv().await;
    }
    let mut new_connection = server.connect();
    new_connection.write_all(HELLO).unwrap();
    new_connection.set_read_timeout(Some(3 * RETRY_DELAY)).unwrap();
    let early = new_connection.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(early, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{early:?}");

    leave.notify_one();
    entries.recv().await;
    leave.notify_one();
    leave.notify_one();
    new_connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(read_answer(&mut new_connection).1, "/hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_slow_with_its_body_after_the_answer_is_closed_for_a_new_one() {
    // The body is read for as long as it comes.
    let handler = |request: Request<Body>| async move {
        let (head, body) = request.into_parts();
        tokio::spawn(axum::body::to_bytes(body, 1 << 20));
        echo_path(Request::from_parts(head, Body::empty())).await
    };
    let server = Server::start(1, TIMEOUTS, handler).await;
    let mut trickling = server.connect();
    trickling.write_all(b"PUT /big HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nx").unwrap();
    assert_eq!(read_answer(&mut trickling).1, "/big");
    let mut new_connection = server.connect();
    new_connection.write_all(HELLO).unwrap();
    assert_eq!(read_answer(&mut new_connection).1, "/hello");
}

/// Returns whether the server has neither sent anything nor closed the connection so far.
fn is_open(client: &mut TcpStream) -> bool {
    client.set_nonblocking(true).unwrap();
    client.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Time stands still while the clients run on a thread for blocking work, so nothing here waits for a timer: neither for one that
/// closes silent connections nor for another try after [`RETRY_DELAY`].
#[tokio::test(start_paused = true)]
async fn for_each_newcomer_in_a_flood_of_silent_connections_only_the_oldest_is_closed_and_at_once() {
    const CAP: usize = 64;
    let server = Server::start(CAP, Timeouts { park: Duration::ZERO, ..TIMEOUTS }, KnowsSome::default()).await;
    let clients = move || {
        let begun = Instant::now();
        let (mut worker, mut others) = (server.caller("/known"), Vec::new());
        for _ in 0..10 {
            others.extend((0..2 * CAP).map(|_| server.connect()));
            others.push(server.caller("/hello"));
            // An authenticated connection was not closed for them.
            ask(&mut worker, "/known");
            // Beside it, the youngest that there is room for are left.
            let first_open = others.len() - (CAP - 1);
            assert!(is_closed(&mut others[first_open - 1]), "one for each");
            assert!(is_open(&mut others[first_open]), "not more than one for each");
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    };
    tokio::task::spawn_blocking(clients).await.unwrap();
}

/// A listener that fails as scripted and then never gives a connection again.
struct Scripted {
    outcomes: Mutex<Vec<io::Result<Stream>>>,
    calls: Arc<AtomicUsize>,
}

impl Scripted {
    async fn accept(&self) -> io::Result<Stream> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let next = self.outcomes.lock().unwrap().pop();
        match next {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accept_that_fails_does_not_end_the_loop_and_does_not_make_it_spin() {
    const EMFILE: i32 = 24;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let outcomes = vec![
        Ok(Stream::Tcp(stream)),
        Err(io::Error::from_raw_os_error(EMFILE)),
        Err(ErrorKind::ConnectionAborted.into()),
        Err(io::Error::from_raw_os_error(EMFILE)),
    ];
    let calls = Arc::new(AtomicUsize::new(0));
    let source = Scripted { outcomes: Mutex::new(outcomes), calls: Arc::clone(&calls) };
    let connections = Connections::new(8, TIMEOUTS, Arc::default());
    let started = std::time::Instant::now();
    tokio::spawn(async move { match connections.accept(|| source.accept(), None, echo_path).await {} });

    client.write_all(HELLO).unwrap();
    assert_eq!(read_answer(&mut client).1, "/hello");
    assert!(started.elapsed() >= 2 * RETRY_DELAY);
    assert!(calls.load(Ordering::SeqCst) <= 5);
}
